// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/tree.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr int kMaxDepth = 200;

struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
};

class TreeReader {
public:
    TreeReader(std::vector<TreeEntry>& entries, const std::function<void(std::string)>& warn)
        : entries_(entries), warn_(warn) {}

    void read(sys::Fd folder, const std::string& prefix, int depth) {
        if (depth > kMaxDepth) {
            warn_(format("{} is left out: folders nested deeper than {}", prefix, kMaxDepth));
            return;
        }
        const int fd = folder.release();
        const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(fd));
        if (!dir) {
            const sys::Fd closes(fd);
            throw_errno("read folder {}", prefix);
        }
        std::vector<std::string> names;
        while (const dirent* entry = ::readdir(dir.get())) {
            const std::string_view name = entry->d_name;
            if (name != "." && name != "..") names.emplace_back(name);
        }
        std::ranges::sort(names);
        for (const std::string& name : names)
            add(fd, name, prefix.empty() ? name : prefix + "/" + name, depth);
    }

private:
    void add(int folder, const std::string& name, const std::string& path, int depth) {
        struct stat info = {};
        if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
            warn_(format("{} is left out: {}", path, errno_error(errno, "stat").what()));
            return;
        }
        TreeEntry entry;
        entry.path = path;
        entry.mode = info.st_mode & 07777;
        entry.modified = info.st_mtim.tv_sec;
        if (S_ISDIR(info.st_mode)) {
            entry.kind = TreeEntry::Kind::folder;
            entries_.push_back(std::move(entry));
            sys::Fd inner(
                ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (!inner.is_open()) {
                warn_(format("{} is left out: {}", path, errno_error(errno, "open").what()));
                return;
            }
            read(std::move(inner), path, depth + 1);
        } else if (S_ISREG(info.st_mode)) {
            entry.size = static_cast<std::uint64_t>(info.st_size);
            entries_.push_back(std::move(entry));
        } else if (S_ISLNK(info.st_mode)) {
            add_link(folder, name, std::move(entry));
        } else {
            warn_(format("{} is left out: a socket, FIFO or device cannot be uploaded", path));
        }
    }

    void add_link(int folder, const std::string& name, TreeEntry entry) {
        std::string target(PATH_MAX, '\0');
        const ssize_t length = ::readlinkat(folder, name.c_str(), target.data(), target.size());
        if (length < 0) return;
        target.resize(static_cast<std::size_t>(length));
        if (!stays_inside(entry.path, target)) {
            warn_(format("{} is left out: the link leads out of the folder, to {}", entry.path,
                         target));
            return;
        }
        entry.kind = TreeEntry::Kind::link;
        entry.target = std::move(target);
        entries_.push_back(std::move(entry));
    }

    std::vector<TreeEntry>& entries_;
    const std::function<void(std::string)>& warn_;
};

}  // namespace

bool stays_inside(std::string_view link, std::string_view target) {
    if (target.empty() || target.front() == '/') return false;
    long depth = static_cast<long>(std::ranges::count(link, '/'));
    for (const std::string& part : split(target, '/')) {
        if (part.empty() || part == ".") continue;
        depth += part == ".." ? -1 : 1;
        if (depth < 0) return false;
    }
    return true;
}

std::vector<TreeEntry> read_tree(const sys::fs::path& root,
                                 const std::function<void(std::string)>& warn) {
    std::vector<TreeEntry> entries;
    sys::Fd folder(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.is_open()) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
            warn(format("{} is no folder any more; nothing is uploaded from it",
                        root.filename().string()));
            return entries;
        }
        throw_errno("open {}", root.string());
    }
    TreeReader(entries, warn).read(std::move(folder), "", 0);
    return entries;
}

sys::Fd open_in_tree(const sys::Fd& root, const std::string& path) {
    open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    sys::Fd file(
        static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
    if (!file.is_open()) throw_errno("open {}", path);
    return file;
}

}  // namespace ty::agent
