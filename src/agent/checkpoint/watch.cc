// SPDX-License-Identifier: Apache-2.0
// States are kept by (watch of the folder, name): a watch follows its folder when that is renamed,
// so only the map of paths has to be made anew.
#include "agent/checkpoint/watch.h"

#include "base/error.h"
#include "base/log.h"

#include <array>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr int kDeepest = 100;
constexpr std::uint32_t kMask = IN_CREATE | IN_OPEN | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM |
                                IN_MOVED_TO | IN_DELETE | IN_ONLYDIR | IN_DONT_FOLLOW |
                                IN_EXCL_UNLINK;

struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
};

}  // namespace

FolderWatch::FolderWatch(sys::fs::path root, Use use) : root_(std::move(root)), use_(use) {}

void FolderWatch::begin() {
    if (use_ == Use::nothing || works()) return;
    notify_ = sys::Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (notify_.is_open()) watch_all();
}

void FolderWatch::give_up() {
    log::warning("the kernel watches no more folders; the checkpoint folder is scanned instead",
                 {{"folder", root_.string()}, {"error", std::strerror(errno)}});
    notify_.close();
    folders_.clear();
    watches_.clear();
    for (std::set<Place>* places : {&created_, &writing_, &closed_, &torn_}) places->clear();
}

void FolderWatch::watch_all() {
    stale_ = false;
    folders_.clear();
    watches_.clear();
    const sys::Fd folder(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (folder.is_open()) watch_below(folder, "", 0);
}

void FolderWatch::watch_below(const sys::Fd& folder, const std::string& path, int depth) {
    // By the open folder and not by its path: a link put in its place leads nowhere.
    const std::string self = format("/proc/self/fd/{}/.", folder.get());
    const int watch = ::inotify_add_watch(notify_.get(), self.c_str(), kMask);
    if (watch < 0) {
        if (errno == ENOSPC || errno == ENOMEM) give_up();
        return;
    }
    folders_[watch] = path;
    watches_[path] = watch;
    if (depth >= kDeepest) return;
    const int copy = ::fcntl(folder.get(), F_DUPFD_CLOEXEC, 0);
    const std::unique_ptr<DIR, CloseDir> dir(copy < 0 ? nullptr : ::fdopendir(copy));
    if (!dir) return;
    while (const dirent* entry = ::readdir(dir.get())) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
        const sys::Fd inner(
            ::openat(copy, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (inner.is_open())
            watch_below(inner, path.empty() ? std::string(name) : path + '/' + std::string(name),
                        depth + 1);
        if (!works()) return;
    }
}

void FolderWatch::drain() {
    alignas(inotify_event) std::array<std::byte, 64u << 10> buffer;
    while (works()) {
        const ssize_t got = ::read(notify_.get(), buffer.data(), buffer.size());
        if (got <= 0) break;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            inotify_event event = {};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            const char* name = reinterpret_cast<const char*>(buffer.data() + at + sizeof event);
            take(event, std::string_view(name, event.len > 0 ? ::strnlen(name, event.len) : 0));
            at += sizeof event + event.len;
            if ((event.mask & IN_OPEN) == 0) ++touches_;
        }
    }
    moving_.clear();
    if (stale_ && works()) watch_all();
}

FolderWatch::Seen FolderWatch::take_seen() {
    drain();
    return std::exchange(seen_, {});
}

void FolderWatch::take(const inotify_event& event, std::string_view name) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) {  // what we knew may be wrong: everything is unknown
        created_.clear();
        writing_.clear();
        closed_.clear();
        stale_ = seen_.touched = seen_.closed = true;
        return;
    }
    if ((event.mask & IN_IGNORED) != 0) {
        const auto gone = folders_.find(event.wd);
        if (gone != folders_.end()) {
            watches_.erase(gone->second);
            folders_.erase(gone);
        }
        for (std::set<Place>* places : {&created_, &writing_, &closed_, &torn_})
            std::erase_if(*places, [&](const Place& place) { return place.first == event.wd; });
        return;
    }
    if ((event.mask & IN_ISDIR) != 0) {
        if ((event.mask & IN_OPEN) != 0) return;
        stale_ = seen_.touched = true;
        return;
    }
    const Place place(event.wd, std::string(name));
    if ((event.mask & IN_OPEN) != 0) {
        if (created_.erase(place) > 0) (braced_ ? torn_ : writing_).insert(place);
        return;
    }
    seen_.touched = true;
    if ((event.mask & IN_CREATE) != 0) {
        drop(place);
        created_.insert(place);
    } else if ((event.mask & IN_MODIFY) != 0) {
        drop(place);
        (braced_ ? torn_ : writing_).insert(place);
    } else if ((event.mask & IN_CLOSE_WRITE) != 0) {
        const bool torn = torn_.contains(place);
        drop(place);
        (torn ? torn_ : closed_).insert(place);
        seen_.closed = true;
    } else if ((event.mask & (IN_MOVED_FROM | IN_MOVED_TO)) != 0) {
        take_move(event.cookie, (event.mask & IN_MOVED_FROM) != 0, place);
        seen_.closed = true;
    } else if ((event.mask & IN_DELETE) != 0) {
        drop(place);
        seen_.closed = true;
    }
}

void FolderWatch::take_move(std::uint32_t cookie, bool away, const Place& place) {
    if (away) {
        moving_[cookie] = writing_.contains(place) ? State::writing
                          : torn_.contains(place)  ? State::torn
                                                   : State::closed;
        drop(place);
        return;
    }
    drop(place);
    const auto from = moving_.find(cookie);
    const State state = from == moving_.end() ? State::closed : from->second;
    (state == State::writing ? writing_ : state == State::torn ? torn_ : closed_).insert(place);
}

void FolderWatch::drop(const Place& place) {
    for (std::set<Place>* places : {&created_, &writing_, &closed_, &torn_}) places->erase(place);
}

FolderWatch::State FolderWatch::state(const std::string& path) const {
    const std::size_t slash = path.rfind('/');
    const bool top = slash == std::string::npos;
    const auto folder = watches_.find(top ? "" : path.substr(0, slash));
    if (folder == watches_.end()) return State::unknown;
    const Place place(folder->second, top ? path : path.substr(slash + 1));
    if (writing_.contains(place)) return State::writing;
    if (torn_.contains(place)) return State::torn;
    return closed_.contains(place) ? State::closed : State::unknown;
}

void FolderWatch::brace() {
    drain();
    braced_ = works();
    torn_.insert(writing_.begin(), writing_.end());
    writing_.clear();
}

bool nobody_writes(int fd) {
    if (::fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        ::fcntl(fd, F_SETLEASE, F_UNLCK);
        return true;
    }
    return errno != EAGAIN;  // EINVAL, EACCES: this file system or this user cannot ask
}

}  // namespace ty::agent
