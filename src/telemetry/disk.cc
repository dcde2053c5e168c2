// SPDX-License-Identifier: Apache-2.0
#include "telemetry/disk.h"

#include "base/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::telemetry {

void make_dirs(const sys::fs::path& dir) {
    std::error_code failed;
    sys::fs::create_directories(dir, failed);
    if (failed) throw errno_error(failed.value(), fmt::format("create folder {}", dir.string()));
}

sys::Fd open_data(const sys::fs::path& path) {
    sys::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.is_open()) throw_errno("open {}", path.string());
    return file;
}

sys::Fd open_data_if_exists(const sys::fs::path& path) {
    sys::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.is_open() && errno != ENOENT) throw_errno("open {}", path.string());
    return file;
}

std::uint64_t file_size(const sys::Fd& file, const sys::fs::path& path) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) throw_errno("stat {}", path.string());
    return std::uint64_t(info.st_size);
}

void read_at(const sys::Fd& file, std::uint64_t offset, std::span<std::byte> into,
             const sys::fs::path& path) {
    while (!into.empty()) {
        const ssize_t got = ::pread(file.get(), into.data(), into.size(), off_t(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno("read {}", path.string());
        if (got == 0)
            throw_error(Code::corrupt, "ShortLogFile", "{} ends at byte {}, more was expected",
                        path.string(), offset);
        into = into.subspan(std::size_t(got));
        offset += std::uint64_t(got);
    }
}

void write_at(const sys::Fd& file, std::uint64_t offset, std::string_view data,
              std::string_view what) {
    const std::uint64_t start = offset;
    while (!data.empty()) {
        const ssize_t put = ::pwrite(file.get(), data.data(), data.size(), off_t(offset));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            const int number = put == 0 ? ENOSPC : errno;
            // Best effort: what lies beyond `start` is not ours to show even where this fails.
            [[maybe_unused]] const int cut = ::ftruncate(file.get(), off_t(start));
            if (number == ENOSPC || number == EDQUOT || number == EFBIG) {
                Error full(
                    Code::exhausted, "DiskFull",
                    fmt::format("no space left to write {}; free disk space and try again", what));
                full.set_os_error(number);
                throw full;
            }
            throw errno_error(number, fmt::format("write {}", what));
        }
        data.remove_prefix(std::size_t(put));
        offset += std::uint64_t(put);
    }
}

void truncate_to(const sys::Fd& file, std::uint64_t size, const sys::fs::path& path) {
    if (::ftruncate(file.get(), off_t(size)) != 0) throw_errno("truncate {}", path.string());
}

}  // namespace ty::telemetry
