// SPDX-License-Identifier: Apache-2.0
// The process tree as /proc shows it, and how a part of it is killed to the last process. Used by
// the worker group (our workers) and by the guard (everything below it).
#pragma once

#include "base/time.h"
#include "sys/sys.h"

#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace ty::agent {

/// What one line of /proc/<pid>/stat says.
struct ProcessLine {
    char state = '?';
    pid_t parent = 0, group = 0, session = 0;
    long long ticks = 0;  ///< user and system, with children already waited for
};
std::optional<ProcessLine> read_process_line(pid_t pid, const sys::fs::path& root = "/");

/// Children of this process, whoever of its threads started or adopted them; zombies too.
std::vector<pid_t> own_children();

/// Like descendants(), from /proc below `root`.
std::vector<pid_t> descendants_below(pid_t ancestor, const sys::fs::path& root);

struct TreeKill {
    /// Which of our own children to kill, with all that is below them.
    std::function<bool(pid_t)> selects;
    /// Collect a selected child if it has ended; false: it lives.
    std::function<bool(pid_t)> reap;
    /// Process groups that only contain processes to be killed.
    std::set<pid_t> groups;
};
/// SIGKILL until nothing is left; what is killed comes back to us, the subreaper, as a child and is
/// reaped. Returns those that live on after `by` (uninterruptible sleep, other credentials).
std::vector<pid_t> kill_tree(TreeKill what, Deadline by);

}  // namespace ty::agent
