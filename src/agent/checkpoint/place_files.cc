// SPDX-License-Identifier: Apache-2.0
// The one place that writes into the folder. A program that ran there may have left links: every
// step goes through an open folder and follows none.
#include "agent/checkpoint/fetch.h"
#include "base/error.h"
#include "base/text.h"

#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Removes what is in the way of a folder or file named so, of any kind.
void clear_away(const sys::Fd& folder, const std::string& name) {
    if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return;
    if (errno != EISDIR && errno != EPERM) throw_errno("remove {}", to_valid_utf8(name));
    std::error_code failed;
    sys::fs::remove_all(sys::fs::path(format("/proc/self/fd/{}", folder.get())) / name, failed);
    if (failed) throw errno_error(failed.value(), format("remove {}", to_valid_utf8(name)));
}

enum class Missing { make, leave };

/// The folder a path lies in; closed when it is not there and not made.
sys::Fd open_parent(const sys::Fd& root, const std::string& path, Missing missing) {
    sys::Fd folder(::fcntl(root.get(), F_DUPFD_CLOEXEC, 0));
    for (std::size_t at = 0;;) {
        const std::size_t slash = path.find('/', at);
        if (slash == std::string::npos) return folder;
        const std::string name = path.substr(at, slash - at);
        sys::Fd inner(::openat(folder.get(), name.c_str(), kFolder));
        if (!inner.is_open() && missing == Missing::leave) return {};
        if (!inner.is_open()) {
            if (errno != ENOENT) clear_away(folder, name);
            if (::mkdirat(folder.get(), name.c_str(), 0755) != 0)
                throw_errno("create folder {}", to_valid_utf8(path.substr(0, slash)));
            inner = sys::Fd(::openat(folder.get(), name.c_str(), kFolder));
            if (!inner.is_open())
                throw_errno("open folder {}", to_valid_utf8(path.substr(0, slash)));
        }
        folder = std::move(inner);
        at = slash + 1;
    }
}

std::string last_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

void place_files(const sys::fs::path& folder, const std::vector<StagedFile>& files) {
    const sys::Fd root = sys::open_dir(folder);
    for (const StagedFile& file : files) {
        const sys::Fd parent = open_parent(root, file.path, Missing::make);
        const std::string name = last_name(file.path);
        const auto move = [&] {
            return ::renameat(AT_FDCWD, file.staged.c_str(), parent.get(), name.c_str()) == 0;
        };
        if (move()) continue;
        if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {
            clear_away(parent, name);
            if (move()) continue;
        }
        throw_errno("move {} into {}", to_valid_utf8(file.path), folder.string());
    }
}

void remove_files(const sys::fs::path& folder, const std::vector<std::string>& paths) {
    const sys::Fd root = sys::open_dir(folder);
    for (const std::string& path : paths) {
        const sys::Fd parent = open_parent(root, path, Missing::leave);
        if (parent.is_open()) ::unlinkat(parent.get(), last_name(path).c_str(), 0);
    }
}

}  // namespace ty::agent
