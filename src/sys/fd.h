// SPDX-License-Identifier: Apache-2.0
// Files as values: an owned descriptor and the few whole-file operations everybody needs.
#pragma once

#include "base/bytes.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ty::sys {

namespace fs = std::filesystem;

/// Owned descriptor, always close-on-exec. Move-assignment closes the old one.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept;
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd();

    int get() const { return fd_; }
    bool is_open() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void close();

private:
    int fd_ = -1;
};

struct Pipe {
    Fd read;
    Fd write;
};

Fd open_read(const fs::path& path);
/// Creates with `mode`; flags are O_* added to O_WRONLY|O_CREAT|O_CLOEXEC.
Fd open_write(const fs::path& path, int flags, unsigned mode = 0644);
Fd open_dir(const fs::path& path);
Pipe make_pipe();

/// Whole file; throws exhausted when larger than `limit`.
std::string read_file(const fs::path& path, Bytes limit = Bytes(64u << 20));
/// Temporary file beside it, fsync, rename, fsync of the folder: old or new content, never a mix.
void write_file_atomically(const fs::path& path, std::string_view content, unsigned mode = 0644);
/// Plain create-or-truncate write, not durable.
void write_file(const fs::path& path, std::string_view content, unsigned mode = 0644);

/// Write everything, retrying EINTR and short writes.
void write_all(int fd, std::span<const std::byte> data);
void write_all(int fd, std::string_view data);
/// One read(2), EINTR retried; 0 at end of file.
std::size_t read_some(int fd, std::span<std::byte> into);
void sync_data(int fd);
void sync_dir(const fs::path& dir);

/// A fresh folder, removed with its content on destruction.
class TempDir {
public:
    explicit TempDir(std::string_view prefix = "trainyard");
    TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TempDir& operator=(TempDir&&) = delete;
    ~TempDir();
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

/// Advisory whole-file lock (of the open file description). Held as long as the object lives, and
/// by nobody else; the kernel drops it with the process, so "is the lock held" answers "is its
/// owner alive".
class FileLock {
public:
    /// nullopt-like: is_held() is false when somebody else holds it.
    static FileLock try_acquire(const fs::path& path);
    bool is_held() const { return fd_.is_open(); }

private:
    Fd fd_;
};
/// True when some process holds the lock; false for a missing file.
bool is_locked(const fs::path& path);

}  // namespace ty::sys
