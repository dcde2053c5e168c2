// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/scan.h"

#include "agent/checkpoint/names.h"
#include "base/error.h"

#include <algorithm>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace ty::agent {

namespace {

constexpr int kDeepest = 100;

struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
};

FileMark mark_from(const struct stat& info) {
    return {static_cast<std::uint64_t>(info.st_size),
            std::int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec,
            static_cast<std::uint64_t>(info.st_ino)};
}

class Scanner {
public:
    Scanner(std::vector<ScannedFile>& files, const ScanWarning& warn)
        : files_(files), warn_(warn) {}

    void read(sys::Fd folder, const std::string& prefix, int depth) {
        if (depth > kDeepest) {
            warn_(prefix, format("folders nested deeper than {}", kDeepest));
            return;
        }
        const int fd = folder.get();
        const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(fd));
        if (!dir) throw_errno("read folder {}", prefix);
        (void)folder.release();
        while (const dirent* entry = ::readdir(dir.get())) {
            const std::string name = entry->d_name;
            if (name == "." || name == ".." || is_left_out(name)) continue;
            add(fd, name, prefix.empty() ? name : prefix + '/' + name, depth);
        }
    }

private:
    void add(int folder, const std::string& name, const std::string& path, int depth) {
        struct stat info = {};
        if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;  // gone again
        if (S_ISDIR(info.st_mode)) {
            sys::Fd inner(
                ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (inner.is_open())
                read(std::move(inner), path, depth + 1);
            else if (errno != ENOENT)
                warn_(path, errno_error(errno, "it cannot be opened").message());
        } else if (S_ISREG(info.st_mode)) {
            files_.push_back({path, mark_from(info)});
        } else if (S_ISLNK(info.st_mode)) {
            warn_(path, "a link has no object to be; write a file");
        } else {
            warn_(path, "a socket, FIFO or device cannot be stored");
        }
    }

    std::vector<ScannedFile>& files_;
    const ScanWarning& warn_;
};

}  // namespace

FileMark mark_of(int fd) {
    struct stat info = {};
    if (::fstat(fd, &info) != 0) throw_errno("stat an open file");
    return mark_from(info);
}

std::vector<ScannedFile> scan_folder(const sys::fs::path& root, const ScanWarning& warn) {
    std::vector<ScannedFile> files;
    sys::Fd folder(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.is_open()) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return files;
        throw_errno("open {}", root.string());
    }
    Scanner(files, warn).read(std::move(folder), "", 0);
    std::ranges::sort(files, {}, &ScannedFile::path);
    return files;
}

}  // namespace ty::agent
