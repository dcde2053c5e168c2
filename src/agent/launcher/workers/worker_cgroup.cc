// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/workers/worker_cgroup.h"

#include "base/result.h"
#include "base/text.h"
#include "sys/flat_file.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using sys::flat_counter;
using sys::read_quietly;
using sys::fs::path;

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

bool kill_group(const path& folder) {
    const sys::Fd file(::open((folder / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
    return file.is_open() && ::write(file.get(), "1", 1) == 1;
}

/// Waits a moment: the last member leaves a little after its end has been reported, which
/// cgroup.events tells.
bool remove_soon(const path& folder) {
    const Deadline by = Deadline::in(milliseconds(100));
    const sys::Fd events(::open((folder / "cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
    while (!remove_groups(folder)) {
        if (by.passed()) return false;
        pollfd changed = {events.get(), POLLPRI, 0};
        ::poll(&changed, 1, std::min(by.poll_timeout(), 5));
    }
    return true;
}

/// Tells process numbers of different containers apart that share a control group.
std::string pid_namespace() {
    struct stat facts = {};
    return ::stat("/proc/self/ns/pid", &facts) == 0 ? std::to_string(facts.st_ino) : "0";
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

void remove_leftover_groups() {
    const path parent = own_cgroup();
    if (parent.empty()) return;
    std::error_code error;
    std::vector<path> dead;
    const std::string here = pid_namespace();
    for (const auto& entry : sys::fs::directory_iterator(parent, error)) {
        const std::vector<std::string> words = split(entry.path().filename().string(), '-');
        if (words.size() < 4 || words[0] != "trainyard" || words[2] != here) continue;
        const auto pid = parse_int(words[1]);
        sys::ProcessStat owner;
        // Init may take its time to reap it.
        const bool lives = pid && *pid > 0 && sys::read_process(static_cast<int>(*pid), owner) &&
                           owner.state != 'Z';
        if (pid && !lives) dead.push_back(entry.path());
    }
    for (const path& folder : dead) {
        kill_group(folder);
        remove_soon(folder);
    }
}

WorkerCgroup WorkerCgroup::create(const std::string& name) {
    WorkerCgroup group;
    const path parent = own_cgroup();
    if (parent.empty()) return group;
    remove_leftover_groups();
    group.folder_ = parent / format("trainyard-{}-{}-{}", ::getpid(), pid_namespace(),
                                    replace_all(name, "/", "_"));
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
    return is_open() && kill_group(folder_);
}

void WorkerCgroup::remove() {
    procs_.close();
    if (!folder_.empty()) remove_soon(folder_);
    folder_.clear();
}

long long WorkerCgroup::oom_kills() const {
    if (folder_.empty()) return -1;
    // Where the memory controller is not handed down to our group, kills count further up.
    for (path at = folder_; at.has_relative_path(); at = at.parent_path()) {
        if (!sys::fs::exists(at / "cgroup.procs")) break;
        const long long count = flat_counter(read_quietly(at / "memory.events"), "oom_kill");
        if (count >= 0) return count;
    }
    return -1;
}

}  // namespace ty::agent
