// SPDX-License-Identifier: Apache-2.0
// Killing a process tree without an atomic operation for it.
//
// We are a subreaper, so whatever loses its parent becomes our child: a tree is gone when none of
// our own children belongs to it any more. A process that forks faster than we look is caught
// through its process group, which the kernel signals atomically with respect to fork.
#include "agent/launcher/workers/process_tree.h"

#include "agent/launcher/workers/workers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <string>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
extern "C" {  // glibc 2.36 forgot to say so itself
#include <sys/pidfd.h>
}
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent {

namespace {

/// Content of a small /proc file; empty when the process is gone. No exceptions: races are normal.
std::string slurp(const std::string& path) {
    const sys::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    if (!file.is_open()) return text;
    std::array<char, 4096> buffer;
    while (true) {
        const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

/// The numbers of a text, separated by blanks.
std::vector<pid_t> numbers(std::string_view text) {
    std::vector<pid_t> result;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        pid_t value = 0;
        const auto [next, error] = std::from_chars(at, end, value);
        if (error == std::errc()) result.push_back(value);
        at = error == std::errc() ? next : at + 1;
    }
    return result;
}

/// Names in a folder that are numbers: processes of /proc, threads of a process.
std::vector<pid_t> numbered_entries(const std::string& folder) {
    std::vector<pid_t> result;
    DIR* dir = ::opendir(folder.c_str());
    if (dir == nullptr) return result;
    while (const dirent* entry = ::readdir(dir)) {
        const std::string_view name = entry->d_name;
        pid_t value = 0;
        const auto [next, error] = std::from_chars(name.data(), name.data() + name.size(), value);
        if (error == std::errc() && next == name.data() + name.size()) result.push_back(value);
    }
    ::closedir(dir);
    return result;
}

std::string proc(const sys::fs::path& root) {
    return root == "/" ? "/proc/" : (root / "proc/").string();
}

/// Who is whose child. Fast where the kernel lists children (CONFIG_PROC_CHILDREN), otherwise by
/// one look at all processes.
class Family {
public:
    explicit Family(const sys::fs::path& root) : proc_(proc(root)) {
        listed_ = root == "/" && ::access("/proc/thread-self/children", R_OK) == 0;
        if (listed_) return;
        for (const pid_t pid : numbered_entries(proc_)) {
            if (const auto line = read_process_line(pid, root))
                by_parent_[line->parent].push_back(pid);
        }
    }
    std::vector<pid_t> children(pid_t pid) const {
        if (!listed_) {
            const auto it = by_parent_.find(pid);
            return it == by_parent_.end() ? std::vector<pid_t>() : it->second;
        }
        std::vector<pid_t> result;
        const std::string tasks = proc_ + std::to_string(pid) + "/task/";
        for (const pid_t thread : numbered_entries(tasks)) {
            const std::vector<pid_t> some =
                numbers(slurp(tasks + std::to_string(thread) + "/children"));
            result.insert(result.end(), some.begin(), some.end());
        }
        return result;
    }

private:
    std::string proc_;
    bool listed_ = false;
    std::map<pid_t, std::vector<pid_t>> by_parent_;
};

struct Relative {
    pid_t pid, parent;
};

std::vector<Relative> relatives_below(const Family& family, std::vector<pid_t> ancestors) {
    std::vector<Relative> result;
    std::set<pid_t> seen(ancestors.begin(), ancestors.end());
    for (std::size_t at = 0; at < ancestors.size(); ++at) {
        for (const pid_t child : family.children(ancestors[at])) {
            if (!seen.insert(child).second) continue;
            result.push_back({child, ancestors[at]});
            ancestors.push_back(child);
        }
    }
    return result;
}

/// How many deaths are awaited at once; the rest of a large tree is found dead in the next round.
constexpr std::size_t kWatched = 64;

/// One kill of one tree, round by round.
class Killer {
public:
    explicit Killer(TreeKill what) : what_(std::move(what)), seen_(what_.groups) {}

    /// True when a look has found nothing to kill.
    bool round() {
        watched_.clear();
        victims_.clear();
        const Family family("/");
        std::set<pid_t> spared_sessions = {::getsid(0)};
        for (const pid_t child : family.children(::getpid())) {
            if (!what_.selects(child)) {
                spared_sessions.insert(::getsid(child));
            } else if (!what_.reap(child)) {
                victims_.push_back(child);
            }
        }
        if (victims_.empty()) return true;
        // Our own children first: only we reap them, so their numbers cannot have been reused. What
        // is below them is listed while they die already; what we miss comes to us.
        for (const pid_t child : victims_) {
            watch(sys::Fd(::pidfd_open(child, 0)));
            ::kill(child, SIGKILL);
        }
        for (const Relative& relative : relatives_below(family, victims_)) {
            if (kill_relative(relative)) victims_.push_back(relative.pid);
        }
        // Ordinary trees are gone after one round. What appears later may run ahead of us.
        if (rounds_++ > 0) kill_groups(spared_sessions);
        seen_.insert(victims_.begin(), victims_.end());
        return false;
    }

    /// Until all that were signalled are dead, or for a moment: somebody new may be there.
    void wait(Deadline by) {
        constexpr milliseconds kSlice(20);
        by = Deadline::earlier(by, Deadline::in(kSlice));
        std::vector<pollfd> fds;
        for (const sys::Fd& fd : watched_) fds.push_back({fd.get(), POLLIN, 0});
        if (fds.empty()) fds.push_back({-1, POLLIN, 0});
        while (!by.passed()) {
            if (::poll(fds.data(), fds.size(), by.poll_timeout()) < 0 && errno != EINTR) return;
            bool alive = false;
            for (pollfd& entry : fds) {
                if (entry.revents != 0) entry.fd = -1;
                alive = alive || entry.fd >= 0;
            }
            if (!alive && !watched_.empty()) return;
        }
    }

    std::vector<pid_t> survivors() const {
        std::vector<pid_t> result;
        for (const pid_t pid : victims_) {
            const auto line = read_process_line(pid);
            if (line && line->state != 'Z' && line->state != 'X') result.push_back(pid);
        }
        return result;
    }

private:
    void watch(sys::Fd pidfd) {
        if (pidfd.is_open() && watched_.size() < kWatched) watched_.push_back(std::move(pidfd));
    }

    /// Its parent may have reaped it by now, and its number may be somebody else's: the descriptor
    /// pins the process, then its parent tells whether it is the one we found.
    bool kill_relative(const Relative& relative) {
        sys::Fd pidfd(::pidfd_open(relative.pid, 0));
        if (!pidfd.is_open()) return false;
        const auto line = read_process_line(relative.pid);
        if (!line || (line->parent != relative.parent && line->parent != ::getpid())) return false;
        if (::pidfd_send_signal(pidfd.get(), SIGKILL, nullptr, 0) != 0 && errno == ESRCH)
            return false;
        watch(std::move(pidfd));
        return true;
    }

    /// A group is ours to kill when one of the dead led it, or when it lies in a session that was
    /// made below us (nobody enters a session but by birth).
    void kill_groups(const std::set<pid_t>& spared_sessions) {
        std::set<pid_t> groups;
        for (const pid_t pid : victims_) {
            const auto line = read_process_line(pid);
            if (!line || line->group <= 1 || line->group == ::getpgrp()) continue;
            if (seen_.contains(line->group) || !spared_sessions.contains(line->session))
                groups.insert(line->group);
        }
        for (const pid_t group : groups) ::kill(-group, SIGKILL);
    }

    TreeKill what_;
    std::set<pid_t> seen_;  ///< all victims so far: leaders of groups
    std::vector<pid_t> victims_;
    std::vector<sys::Fd> watched_;
    int rounds_ = 0;
};

}  // namespace

std::optional<ProcessLine> read_process_line(pid_t pid, const sys::fs::path& root) {
    const std::string text = slurp(proc(root) + std::to_string(pid) + "/stat");
    // The name is in parentheses and may contain any character, so fields count from the last ")".
    const std::size_t close = text.rfind(") ");
    if (close == std::string::npos || close + 2 >= text.size()) return std::nullopt;
    ProcessLine line;
    line.state = text[close + 2];
    std::array<long long, 14> fields = {};  // from ppid (field 4) to cstime (field 17)
    const char* at = text.data() + close + 3;
    const char* const end = text.data() + text.size();
    for (long long& field : fields) {
        while (at < end && *at == ' ') ++at;
        const auto [next, error] = std::from_chars(at, end, field);
        if (error != std::errc()) return std::nullopt;
        at = next;
    }
    line.parent = static_cast<pid_t>(fields[0]);
    line.group = static_cast<pid_t>(fields[1]);
    line.session = static_cast<pid_t>(fields[2]);
    line.ticks = fields[10] + fields[11] + fields[12] + fields[13];
    return line;
}

std::vector<pid_t> own_children() {
    return Family("/").children(::getpid());
}

std::vector<pid_t> descendants_below(pid_t ancestor, const sys::fs::path& root) {
    std::vector<pid_t> result;
    for (const Relative& relative : relatives_below(Family(root), {ancestor}))
        result.push_back(relative.pid);
    return result;
}

std::vector<pid_t> descendants(pid_t root) {
    return descendants_below(root, "/");
}

std::vector<pid_t> kill_tree(TreeKill what, Deadline by) {
    Killer killer(std::move(what));
    // The kernel's list of children may miss one while another leaves it, so one empty look is
    // none.
    int empty_looks = 0;
    while (true) {
        if (killer.round()) {
            if (++empty_looks == 2) return {};
            continue;
        }
        empty_looks = 0;
        if (by.passed()) return killer.survivors();
        killer.wait(by);
    }
}

std::vector<pid_t> kill_descendants(milliseconds patience, const std::set<pid_t>& spared) {
    const auto selects = [&spared](pid_t pid) { return !spared.contains(pid); };
    const auto reap = [](pid_t pid) {
        const pid_t reaped = ::waitpid(pid, nullptr, WNOHANG);
        return reaped == pid || (reaped < 0 && errno == ECHILD);
    };
    return kill_tree({.selects = selects, .reap = reap, .groups = {}}, Deadline::in(patience));
}

}  // namespace ty::agent
