// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/worker_cgroup.h"

#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using sys::fs::path;

std::string read_quietly(const path& file) {
    Result<std::string> text = capture([&] { return sys::read_file(file); });
    return text.ok() ? std::move(text).value() : std::string();
}

long long counter(const std::string& text, std::string_view name) {
    for (const std::string& line : split(text, '\n')) {
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
            return parse_int(trim(std::string_view(line).substr(name.size() + 1))).value_or(-1);
    }
    return -1;
}

/// The unified hierarchy's mount: which part of it is seen, and where.
struct UnifiedMount {
    std::string part, point;
};
UnifiedMount unified_mount(const std::string& mountinfo) {
    for (const std::string& line : split(mountinfo, '\n')) {
        const std::vector<std::string> words = split(line, ' ');
        const auto dash = std::find(words.begin(), words.end(), "-");
        if (words.size() < 6 || dash == words.end() || dash + 1 == words.end()) continue;
        if (*(dash + 1) == "cgroup2") return {words[3], words[4]};
    }
    return {};
}

/// rmdir of the folder and all below it; false when somebody is still in there.
bool remove_groups(const path& folder) {
    std::error_code error;
    for (const auto& entry : sys::fs::directory_iterator(folder, error)) {
        if (entry.is_directory(error)) remove_groups(entry.path());
    }
    return ::rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

/// Groups "trainyard-<pid>-…" whose launcher is gone; those with members stay.
void remove_leftovers(const path& parent) {
    std::error_code error;
    std::vector<path> dead;
    for (const auto& entry : sys::fs::directory_iterator(parent, error)) {
        const std::vector<std::string> words = split(entry.path().filename().string(), '-');
        if (words.size() < 3 || words[0] != "trainyard") continue;
        const auto pid = parse_int(words[1]);
        if (pid && *pid > 0 && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH)
            dead.push_back(entry.path());
    }
    for (const path& folder : dead) remove_groups(folder);
}

}  // namespace

path own_cgroup(const path& proc_self) {
    const UnifiedMount mount = unified_mount(read_quietly(proc_self / "mountinfo"));
    if (mount.point.empty()) return {};
    for (const std::string& line : split(read_quietly(proc_self / "cgroup"), '\n')) {
        if (!line.starts_with("0::/")) continue;
        std::string group = line.substr(3);
        // Without a cgroup namespace a container sees only its part, under the full name.
        if (mount.part != "/" && group.starts_with(mount.part)) group.erase(0, mount.part.size());
        while (group.starts_with("/")) group.erase(0, 1);
        return group.empty() ? path(mount.point) : path(mount.point) / group;
    }
    return {};
}

WorkerCgroup WorkerCgroup::create(const std::string& name) {
    WorkerCgroup group;
    const path parent = own_cgroup();
    if (parent.empty()) return group;
    remove_leftovers(parent);
    group.folder_ = parent / format("trainyard-{}-{}", ::getpid(), replace_all(name, "/", "_"));
    if (::mkdir(group.folder_.c_str(), 0755) != 0 && errno != EEXIST) {
        group.folder_.clear();
        return group;
    }
    group.procs_ = sys::Fd(::open((group.folder_ / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    if (!group.procs_.is_open()) group.remove();
    return group;
}

WorkerCgroup& WorkerCgroup::operator=(WorkerCgroup&& other) noexcept {
    if (this == &other) return *this;
    remove();
    folder_ = std::exchange(other.folder_, {});
    procs_ = std::move(other.procs_);
    return *this;
}

WorkerCgroup::~WorkerCgroup() {
    remove();
}

bool WorkerCgroup::kill() const {
    if (!is_open()) return false;
    const sys::Fd file(::open((folder_ / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
    return file.is_open() && ::write(file.get(), "1", 1) == 1;
}

void WorkerCgroup::remove() {
    procs_.close();
    if (folder_.empty()) return;
    // The last member leaves a little after its end has been reported; cgroup.events tells.
    const Deadline by = Deadline::in(milliseconds(100));
    const sys::Fd events(::open((folder_ / "cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
    while (!remove_groups(folder_) && !by.passed()) {
        pollfd changed = {events.get(), POLLPRI, 0};
        ::poll(&changed, 1, std::min(by.poll_timeout(), 5));
    }
    folder_.clear();
}

long long WorkerCgroup::oom_kills() const {
    if (folder_.empty()) return -1;
    // Where the memory controller is not handed down to our group, kills count further up.
    for (path at = folder_; at.has_relative_path(); at = at.parent_path()) {
        if (!sys::fs::exists(at / "cgroup.procs")) break;
        const long long count = counter(read_quietly(at / "memory.events"), "oom_kill");
        if (count >= 0) return count;
    }
    return -1;
}

}  // namespace ty::agent
