// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/notice/checkpoint_file.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>

namespace ty::agent {

namespace {

bool ends_with_one_of(std::string_view name, std::initializer_list<std::string_view> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [name](std::string_view ending) { return name.ends_with(ending); });
}

bool is_temporary(std::string_view name) {
    return name.starts_with(".") || name.starts_with("tmp-") ||
           ends_with_one_of(name, {".tmp", ".part", ".incomplete"});
}

}  // namespace

bool is_log(std::string_view name) {
    return name.starts_with("events.out.tfevents.") ||
           ends_with_one_of(name, {".log", ".csv", ".tsv", ".jsonl", ".out", ".err", ".lock"});
}

Proof proof_of(const sys::fs::path& path) {
    for (const sys::fs::path& folder : path.parent_path()) {
        if (is_temporary(folder.native())) return Proof::nothing;
    }
    const std::string name = path.filename().string();
    if (name == ".metadata") return Proof::complete;
    if (name.empty() || is_temporary(name) || is_log(name) || name.ends_with(".distcp"))
        return Proof::nothing;
    return Proof::complete;
}

std::optional<Stamp> stamp_of(const sys::fs::path& path) {
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
    return Stamp{info.st_ino, info.st_size,
                 info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec, info.st_nlink,
                 S_ISREG(info.st_mode)};
}

bool is_open_for_writing(const sys::fs::path& path) {
    // The kernel grants a read lease only on files that nobody has open for writing. Whoever opens
    // it while we hold the lease waits these microseconds, and we get a signal: one that is ignored
    // by default, since SIGIO would end the process.
    const sys::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (!fd.is_open() || ::fcntl(fd.get(), F_SETSIG, SIGURG) != 0) return false;
    if (::fcntl(fd.get(), F_SETLEASE, F_RDLCK) == 0) {
        ::fcntl(fd.get(), F_SETLEASE, F_UNLCK);
        return false;
    }
    return errno == EAGAIN;
}

}  // namespace ty::agent
