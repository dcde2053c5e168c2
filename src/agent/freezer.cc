// SPDX-License-Identifier: Apache-2.0
#include "agent/freezer.h"

#include "agent/launcher/workers/process_tree.h"
#include "sys/sys.h"

#include <csignal>

namespace ty::agent {

namespace {

/// When the process began, in the kernel's ticks; nothing when it is gone.
std::optional<long long> start_of(pid_t pid) {
    sys::ProcessStat stat;
    if (!sys::read_process(pid, stat)) return std::nullopt;
    return static_cast<long long>(stat.start_ticks);
}

}  // namespace

void Freezer::hold() {
    for (const pid_t pid : descendants_below(box_, "/")) {
        if (pid == box_ || held_.contains(pid)) continue;
        // With namespaces the box's child is the init; without, the box itself is.
        const std::optional<ProcessLine> line = read_process_line(pid);
        if (!line || (rung_ == Rung::namespaces && line->parent == box_)) continue;
        const std::optional<long long> start = start_of(pid);
        if (start && ::kill(pid, SIGSTOP) == 0) held_.emplace(pid, *start);
    }
}

Freezer::~Freezer() {
    for (const auto& [pid, start] : held_) {
        if (start_of(pid) == start) (void)::kill(pid, SIGCONT);
    }
}

}  // namespace ty::agent
