// SPDX-License-Identifier: Apache-2.0
// Only the tar reader and the gzip filter of libarchive are switched on, so that nothing else of it
// is linked. Every path is opened with openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS): even an
// archive that plants a link first and writes "through" it second cannot leave the folder.
#include "agent/transfer/unpack.h"

#include "agent/transfer/tree.h"
#include "base/error.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>

#include <fcntl.h>
#include <linux/openat2.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ty::agent {

namespace {

/// libarchive converts names through the thread's locale; only in UTF-8 do all of them survive.
class Utf8Locale {
public:
    Utf8Locale()
        : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)),
          before_(locale_ != nullptr ? ::uselocale(locale_) : nullptr) {}
    Utf8Locale(const Utf8Locale&) = delete;
    Utf8Locale& operator=(const Utf8Locale&) = delete;
    ~Utf8Locale() {
        if (locale_ == nullptr) return;
        ::uselocale(before_);
        ::freelocale(locale_);
    }

private:
    locale_t locale_;
    locale_t before_;
};

struct FreeArchive {
    void operator()(archive* handle) const { ::archive_read_free(handle); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

class Unpacker {
public:
    Unpacker(std::string name, const sys::fs::path& into, const UnpackLimits& limits)
        : name_(std::move(name)),
          root_(sys::open_dir(into)),
          limits_(limits),
          archive_(::archive_read_new()) {
        if (!archive_) throw_error(Code::exhausted, "BadArchive", "read {}: out of memory", name_);
        ::archive_read_support_filter_gzip(archive_.get());
        ::archive_read_support_format_tar(archive_.get());
    }

    archive* handle() { return archive_.get(); }

    std::vector<std::string> run() {
        archive_entry* entry = nullptr;
        for (;;) {
            const int state = ::archive_read_next_header(archive_.get(), &entry);
            if (state == ARCHIVE_EOF) return std::move(files_);
            // A warning means names or numbers were bent to fit; what they became is not to be
            // trusted.
            if (state != ARCHIVE_OK) refuse_archive();
            if (++count_ > limits_.entries) {
                throw_error(Code::exhausted, "BadArchive", "{} has more than {} entries; pack less",
                            name_, limits_.entries);
            }
            one(entry);
        }
    }

    [[noreturn]] void refuse_archive() {
        const char* why = ::archive_error_string(archive_.get());
        throw_error(Code::invalid, "BadArchive", "{} is not a readable tar.gz: {}", name_,
                    to_valid_utf8(why != nullptr ? why : "unknown format"));
    }

private:
    [[noreturn]] void refuse(const std::string& path, std::string_view why) {
        throw_error(Code::invalid, "BadArchive",
                    "{}: entry \"{}\" is refused: {}; pack the folder again without it", name_,
                    to_valid_utf8(path), why);
    }

    /// Normal form without "." parts; empty for the root itself.
    std::string check_path(const char* raw) {
        const std::string path = raw != nullptr ? raw : "";
        if (path.size() > limits_.path) refuse(path.substr(0, 80) + "…", "its name is too long");
        if (path.starts_with('/')) refuse(path, "its path is absolute");
        std::vector<std::string> parts;
        for (std::string& part : split(path, '/')) {
            if (part.empty() || part == ".") continue;
            if (part == "..") refuse(path, "its path contains \"..\"");
            if (part.size() > NAME_MAX) refuse(path.substr(0, 80) + "…", "its name is too long");
            parts.push_back(std::move(part));
        }
        return join(parts, "/");
    }

    /// As check_path, but what is refused is the link that names the target.
    std::string check_target(const std::string& link, const std::string& target) {
        const std::vector<std::string> parts = split(target, '/');
        if (target.starts_with('/') || std::ranges::find(parts, "..") != parts.end())
            refuse(link,
                   "the hard link leads out of the archive, to \"" + to_valid_utf8(target) + "\"");
        return check_path(target.c_str());
    }

    void one(archive_entry* entry) {
        const std::string path = check_path(::archive_entry_pathname(entry));
        const auto type = ::archive_entry_filetype(entry);
        const auto mode = static_cast<mode_t>(::archive_entry_perm(entry) & 0777);
        if (const char* target = ::archive_entry_hardlink(entry)) {
            hard_link(path, target);
        } else if (path.empty()) {
            if (type != AE_IFDIR) refuse(".", "only a folder may be called so");
        } else if (type == AE_IFDIR) {
            const sys::Fd folder = open_folder(path);
            (void)::fchmod(folder.get(), mode | 0700);
        } else if (type == AE_IFREG) {
            file(path, mode);
        } else if (type == AE_IFLNK) {
            const char* linked = ::archive_entry_symlink(entry);
            soft_link(path, linked != nullptr ? linked : "");
        } else {
            refuse(path, "it is a device, FIFO or socket");
        }
    }

    void file(const std::string& path, mode_t mode) {
        const auto [folder, name] = parent_of(path);
        (void)::unlinkat(folder.get(), name.c_str(),
                         0);  // tar replaces; also a link planted before
        const sys::Fd out(::openat(folder.get(), name.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                   mode | 0600));
        if (!out.is_open()) failed(path);
        const void* data = nullptr;
        std::size_t size = 0;
        la_int64_t offset = 0;
        for (;;) {
            const int state = ::archive_read_data_block(archive_.get(), &data, &size, &offset);
            if (state == ARCHIVE_EOF) break;
            if (state != ARCHIVE_OK) refuse_archive();
            const auto end = static_cast<std::uint64_t>(offset) + size;
            if (offset < 0 || end > limits_.total.count() ||
                total_ + size > limits_.total.count()) {
                throw_error(Code::exhausted, "BadArchive",
                            "{} unpacks to more than {}, at entry \"{}\"; pack less", name_,
                            to_string(limits_.total), to_valid_utf8(path));
            }
            total_ += size;
            write_at(out.get(), data, size, offset, path);
        }
        (void)::fchmod(out.get(), mode | 0600);
        files_.push_back(path);
    }

    void write_at(int fd, const void* data, std::size_t size, la_int64_t offset,
                  const std::string& path) {
        const char* at = static_cast<const char*>(data);
        while (size > 0) {
            const ssize_t wrote = ::pwrite(fd, at, size, offset);
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote < 0) failed(path);
            at += wrote;
            size -= static_cast<std::size_t>(wrote);
            offset += wrote;
        }
    }

    void soft_link(const std::string& path, const std::string& target) {
        if (!stays_inside(path, target))
            refuse(path, "the link leads out of the archive, to \"" + to_valid_utf8(target) + "\"");
        const auto [folder, name] = parent_of(path);
        (void)::unlinkat(folder.get(), name.c_str(), 0);
        if (::symlinkat(target.c_str(), folder.get(), name.c_str()) != 0) failed(path);
    }

    void hard_link(const std::string& path, const char* raw_target) {
        const std::string target = check_target(path, raw_target);
        if (path.empty() || target.empty() || path == target)
            refuse(path, "it is a link to nothing");
        const auto [from_folder, from_name] = parent_of(target);
        const auto [folder, name] = parent_of(path);
        struct stat info = {};
        if (::fstatat(from_folder.get(), from_name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode)) {
            refuse(path, "it is a hard link to \"" + to_valid_utf8(target) +
                             "\", which is no file of the archive");
        }
        (void)::unlinkat(folder.get(), name.c_str(), 0);
        if (::linkat(from_folder.get(), from_name.c_str(), folder.get(), name.c_str(), 0) != 0)
            failed(path);
        files_.push_back(path);
    }

    struct Parent {
        sys::Fd folder;
        std::string name;
    };
    Parent parent_of(const std::string& path) {
        const std::size_t slash = path.rfind('/');
        if (slash == std::string::npos) {
            sys::Fd copy(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0));
            if (!copy.is_open()) failed(path);
            return {std::move(copy), path};
        }
        return {open_folder(path.substr(0, slash)), path.substr(slash + 1)};
    }

    /// The folder, made with its parents, reached without following a link.
    sys::Fd open_folder(const std::string& path) {
        sys::Fd folder = try_open(path);
        if (folder.is_open()) return folder;
        if (errno != ENOENT) failed(path);
        for (std::size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
            const std::string upto = path.substr(0, slash);
            sys::Fd parent = upto.rfind('/') == std::string::npos
                                 ? sys::Fd(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0))
                                 : try_open(upto.substr(0, upto.rfind('/')));
            const std::string last =
                upto.substr(upto.rfind('/') == std::string::npos ? 0 : upto.rfind('/') + 1);
            if (!parent.is_open()) failed(path);
            if (::mkdirat(parent.get(), last.c_str(), 0755) != 0 && errno != EEXIST) failed(path);
            if (slash == std::string::npos) break;
        }
        folder = try_open(path);
        if (!folder.is_open()) failed(path);
        return folder;
    }

    sys::Fd try_open(const std::string& path) {
        open_how how = {};
        how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
        return sys::Fd(
            static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how)));
    }

    [[noreturn]] void failed(const std::string& path) {
        const int number = errno;
        switch (number) {
            case ELOOP:
                refuse(path, "it would be written through a link");
            case ENOTDIR:
            case EISDIR:
            case EEXIST:
                refuse(path, "a file and a folder have the same name");
            case EINVAL:
            case ENAMETOOLONG:
                refuse(path, "its name cannot be used here");
            default:
                throw errno_error(number, format("unpack {} of {}", to_valid_utf8(path), name_));
        }
    }

    const Utf8Locale locale_;
    std::string name_;
    sys::Fd root_;
    UnpackLimits limits_;
    Archive archive_;
    std::size_t count_ = 0;
    std::uint64_t total_ = 0;
    std::vector<std::string> files_;
};

}  // namespace

std::vector<std::string> unpack(const sys::fs::path& archive, const std::string& name,
                                const sys::fs::path& into, const UnpackLimits& limits) {
    const sys::Fd file = sys::open_read(archive);
    Unpacker unpacker(name, into, limits);
    if (::archive_read_open_fd(unpacker.handle(), file.get(), 1u << 18) != ARCHIVE_OK)
        unpacker.refuse_archive();
    return unpacker.run();
}

std::vector<std::string> unpack(std::span<const std::byte> archive, const std::string& name,
                                const sys::fs::path& into, const UnpackLimits& limits) {
    Unpacker unpacker(name, into, limits);
    if (::archive_read_open_memory(unpacker.handle(), archive.data(), archive.size()) !=
        ARCHIVE_OK) {
        unpacker.refuse_archive();
    }
    return unpacker.run();
}

}  // namespace ty::agent
