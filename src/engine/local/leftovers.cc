// SPDX-License-Identifier: Apache-2.0
#include "engine/local/leftovers.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/sys.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <vector>

#include <unistd.h>

namespace ty::engine {

namespace fs = std::filesystem;

namespace {

struct Seen {
    int pid = 0;
    int parent = 0;
    int session = 0;
    bool zombie = false;
};

std::string read_proc(const fs::path& path) {
    auto text = capture([&] { return sys::read_file(path, Bytes(4u << 20)); });
    return text.ok() ? std::move(text).value() : std::string();
}

/// "pid (name) state ppid pgrp session ..."; the name may hold anything, so count from the last
/// ')'.
std::vector<Seen> all_processes() {
    std::vector<Seen> seen;
    std::error_code failed;
    for (fs::directory_iterator it("/proc", failed), end; !failed && it != end;
         it.increment(failed)) {
        const auto pid = parse_int(it->path().filename().string());
        if (!pid) continue;
        const std::string stat = read_proc(it->path() / "stat");
        const std::size_t name_end = stat.rfind(')');
        if (name_end == std::string::npos || name_end + 2 >= stat.size()) continue;
        const auto fields = split(std::string_view(stat).substr(name_end + 2), ' ');
        if (fields.size() < 4) continue;
        seen.push_back({static_cast<int>(*pid), static_cast<int>(parse_int(fields[1]).value_or(0)),
                        static_cast<int>(parse_int(fields[3]).value_or(0)),
                        fields[0] == "Z" || fields[0] == "X"});
    }
    return seen;
}

/// Value of kRunVariable in a process's environment; empty when it has none.
std::string run_of(int pid) {
    static constexpr std::string_view kName = kRunVariable;
    const std::string block = read_proc(fs::path("/proc") / std::to_string(pid) / "environ");
    for (std::size_t at = 0; at < block.size();) {
        const std::size_t end = std::min(block.find('\0', at), block.size());
        const std::string_view entry = std::string_view(block).substr(at, end - at);
        if (entry.size() > kName.size() && entry[kName.size()] == '=' && entry.starts_with(kName))
            return std::string(entry.substr(kName.size() + 1));
        at = end + 1;
    }
    return {};
}

std::vector<int> find_leftovers(std::span<const Leftovers> which) {
    std::set<int> sessions;
    std::set<std::string> folders;
    for (const Leftovers& one : which) {
        if (one.session > 1) sessions.insert(one.session);
        if (!one.folder.empty()) folders.insert(one.folder);
    }
    const std::vector<Seen> all = all_processes();
    std::set<int> found;
    for (const Seen& one : all) {
        if (one.zombie || one.pid == ::getpid() || one.pid <= 1) continue;
        if (sessions.contains(one.session) || folders.contains(run_of(one.pid)))
            found.insert(one.pid);
    }
    // And everything below them, whatever it did to its session and environment.
    for (bool grew = !found.empty(); grew;) {
        grew = false;
        for (const Seen& one : all) {
            if (one.zombie || !found.contains(one.parent)) continue;
            grew |= found.insert(one.pid).second;
        }
    }
    return {found.begin(), found.end()};
}

}  // namespace

int kill_leftovers(std::span<const Leftovers> which, Deadline by) {
    int killed = 0;
    for (;;) {
        int signalled = 0;
        for (const int pid : find_leftovers(which))
            if (::kill(pid, SIGKILL) == 0) ++signalled;
        killed += signalled;
        if (signalled == 0 || by.passed()) return killed;
        // A killed process stays visible for a moment, and may have forked in the last one.
        sys::pause(Deadline::earlier(by, Deadline::in(milliseconds(2))), {});
    }
}

}  // namespace ty::engine
