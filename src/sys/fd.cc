// SPDX-License-Identifier: Apache-2.0
// Descriptors, whole-file reads and writes, temporary folders and lock files.
#include "sys/fd.h"

#include "base/error.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::sys {

Fd& Fd::operator=(Fd&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}

Fd::~Fd() {
    close();
}

void Fd::close() {
    // EINTR is not retried: Linux has released the number already.
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

namespace {

/// open(2), EINTR retried (FIFOs and network file systems); -1 with errno on failure.
int open_retrying(const fs::path& path, int flags, unsigned mode = 0) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(mode));
    } while (fd < 0 && errno == EINTR);
    return fd;
}

void sync_all(int fd, const fs::path& path) {
    if (::fsync(fd) != 0) throw_errno("fsync {}", path.string());
}

}  // namespace

Fd open_read(const fs::path& path) {
    Fd fd(open_retrying(path, O_RDONLY));
    if (!fd.is_open()) throw_errno("open {}", path.string());
    return fd;
}

Fd open_write(const fs::path& path, int flags, unsigned mode) {
    Fd fd(open_retrying(path, O_WRONLY | O_CREAT | flags, mode));
    if (!fd.is_open()) throw_errno("open {} for writing", path.string());
    return fd;
}

Fd open_dir(const fs::path& path) {
    Fd fd(open_retrying(path, O_RDONLY | O_DIRECTORY));
    if (!fd.is_open()) throw_errno("open folder {}", path.string());
    return fd;
}

Pipe make_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("create a pipe");
    return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::string read_file(const fs::path& path, Bytes limit) {
    const Fd fd = open_read(path);
    struct stat info = {};
    if (::fstat(fd.get(), &info) != 0) throw_errno("stat {}", path.string());
    if (S_ISDIR(info.st_mode))
        throw_error(Code::invalid, "", "{} is a folder, not a file", path.string());
    const auto refuse = [&path, limit] {
        throw_error(Code::exhausted, "FileTooLarge", "{} is larger than {}", path.string(),
                    to_string(limit));
    };
    const auto known = static_cast<std::uint64_t>(info.st_size);
    if (known > limit.count()) refuse();
    // /proc and /sys report size 0: the buffer starts at what is known and grows while bytes come.
    std::string content(static_cast<std::size_t>(known) + 1, '\0');
    std::size_t filled = 0;
    while (true) {
        if (filled == content.size())
            content.resize(content.size() < 2048 ? 4096 : content.size() * 2);
        const std::size_t got = in_context("read " + path.string(), [&] {
            return read_some(fd.get(), std::as_writable_bytes(std::span(content).subspan(filled)));
        });
        if (got == 0) break;
        filled += got;
        if (filled > limit.count()) refuse();
    }
    content.resize(filled);
    return content;
}

void write_file_atomically(const fs::path& path, std::string_view content, unsigned mode) {
    const fs::path dir = path.has_parent_path() ? path.parent_path() : fs::path(".");
    std::string name = (dir / ("." + path.filename().string() + ".XXXXXX")).string();
    const Fd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd.is_open()) throw_errno("create a temporary file beside {}", path.string());
    try {
        if (::fchmod(fd.get(), static_cast<mode_t>(mode)) != 0) throw_errno("chmod {}", name);
        in_context("write " + path.string(), [&] { write_all(fd.get(), content); });
        sync_all(fd.get(), path);
        if (::rename(name.c_str(), path.c_str()) != 0)
            throw_errno("rename {} to {}", name, path.string());
    } catch (...) {
        ::unlink(name.c_str());
        throw;
    }
    sync_dir(dir);
}

void write_file(const fs::path& path, std::string_view content, unsigned mode) {
    const Fd fd = open_write(path, O_TRUNC, mode);
    in_context("write " + path.string(), [&] { write_all(fd.get(), content); });
}

void write_all(int fd, std::span<const std::byte> data) {
    while (!data.empty()) {
        const ssize_t count = ::write(fd, data.data(), data.size());
        if (count < 0) {
            if (errno == EINTR) continue;
            throw_errno("write {} bytes", data.size());
        }
        data = data.subspan(static_cast<std::size_t>(count));
    }
}

void write_all(int fd, std::string_view data) {
    write_all(fd, std::as_bytes(std::span(data.data(), data.size())));
}

std::size_t read_some(int fd, std::span<std::byte> into) {
    while (true) {
        const ssize_t count = ::read(fd, into.data(), into.size());
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) throw_errno("read");
    }
}

void sync_data(int fd) {
    if (::fdatasync(fd) != 0) throw_errno("fdatasync");
}

void sync_dir(const fs::path& dir) {
    const Fd fd = open_dir(dir);
    sync_all(fd.get(), dir);
}

TempDir::TempDir(std::string_view prefix) {
    const char* base = std::getenv("TMPDIR");
    std::string name = (fs::path(base != nullptr && *base == '/' ? base : "/tmp") /
                        (std::string(prefix) + ".XXXXXX"))
                           .string();
    if (::mkdtemp(name.data()) == nullptr) throw_errno("create a temporary folder {}", name);
    path_ = name;
}

TempDir::~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

namespace {

/// Open file description locks: owned by the descriptor, not the process, and - unlike flock -
/// testable without taking them, so that asking never makes the owner's own attempt fail.
struct flock whole_file() {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

}  // namespace

FileLock FileLock::try_acquire(const fs::path& path) {
    FileLock result;
    while (true) {
        Fd fd(open_retrying(path, O_RDWR | O_CREAT, 0644));
        if (!fd.is_open()) throw_errno("open lock file {}", path.string());
        struct flock lock = whole_file();
        if (::fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EACCES) return result;
            throw_errno("lock {}", path.string());
        }
        // The file may have been removed between open and lock: a lock on a name that is gone
        // excludes nobody.
        struct stat held = {};
        struct stat named = {};
        if (::fstat(fd.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
            held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
            result.fd_ = std::move(fd);
            return result;
        }
    }
}

bool is_locked(const fs::path& path) {
    const Fd fd(open_retrying(path, O_RDONLY));
    if (!fd.is_open()) {
        if (errno == ENOENT || errno == ENOTDIR) return false;
        throw_errno("open lock file {}", path.string());
    }
    struct flock lock = whole_file();
    if (::fcntl(fd.get(), F_OFD_GETLK, &lock) != 0)
        throw_errno("test the lock of {}", path.string());
    return lock.l_type != F_UNLCK;
}

}  // namespace ty::sys
