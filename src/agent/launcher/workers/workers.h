// SPDX-License-Identifier: Apache-2.0
// The workers of one generation on this node: started, watched, stopped, and never orphaned.
//
// A worker is our direct child with a parent-death signal; what it starts itself is found again
// because we are a subreaper, and, where one may be made, because of a cgroup per generation. Used
// by the launcher's one thread (the parent-death signal follows the thread that forked).
#pragma once

#include "agent/launcher/warm/warm_pool.h"
#include "base/time.h"
#include "sys/sys.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ty::agent {

struct WorkerSpec {
    int local_rank = 0;
    std::vector<std::string> argv;
    std::vector<std::string> env;        ///< "NAME=value", complete
    int stdout_fd = -1, stderr_fd = -1;  ///< -1: ours
    std::vector<int> cpus;               ///< NUMA binding; empty: any
    std::uint64_t mark = 0;              ///< WorkerGroup's: soft RLIMIT_LOCKS, see there
};

/// fork + exec of one worker: default signals, empty mask, stdin and folder inherited, SIGKILL when
/// we die. Throws not_found/denied at once when the program cannot be executed. `cgroup_procs`:
/// open cgroup.procs to join, or -1. `extra`: {our fd, its number in the child}.
pid_t spawn_worker(const WorkerSpec& spec, int cgroup_procs = -1,
                   const std::vector<std::pair<int, int>>& extra = {});

struct WorkerEnd {
    int local_rank = 0;
    pid_t pid = 0;
    sys::Exit exit;
    bool by_us = false;  ///< it lived when kill_all() was called
};

class WorkerGroup {
public:
    /// on_end is called from the poller for each worker that ended by itself or was stopped.
    WorkerGroup(sys::Poller& poller, std::function<void(const WorkerEnd&)> on_end);
    /// Kills what is left, reaps it, removes the cgroup.
    ~WorkerGroup();

    /// Start all, rank 0 of the job first. A standby of `pool` (may be null) is used where one is
    /// ready for exactly this program and environment; otherwise a cold exec. Throws as
    /// spawn_worker, after stopping those already started.
    void start(const std::vector<WorkerSpec>& specs, WarmPool* pool,
               const std::string& cgroup_name);

    bool empty() const;  ///< no worker left (their descendants may be)
    std::size_t alive() const;
    std::vector<std::pair<int, pid_t>> pids() const;  ///< local rank, pid of those alive
    int warm_starts() const;                          ///< of the last start()

    /// To every live worker (not to what they started).
    void signal(int number);
    /// Only to workers whose /proc status says they catch it; returns how many.
    int signal_catchers(int number);
    static bool catches(pid_t pid, int number);

    /// SIGKILL workers and every descendant, by cgroup.kill or by walking the process tree until it
    /// is empty. Does not block on processes in uninterruptible sleep: returns those pids after
    /// `patience`. Other children of this process (standbys, the coordinator) are not touched. The
    /// workers' ends are reported by on_end in a later poll round, unless take_ended() comes first.
    std::vector<pid_t> kill_all(milliseconds patience = milliseconds(1000));
    /// Ends not reported yet: of kill_all(), and of workers that ended in the meantime. on_end does
    /// not report them again. start() forgets them.
    std::vector<WorkerEnd> take_ended();
    /// oom_kill count of the generation's cgroup or, without one, of the machine; -1 unknown.
    long long oom_kills() const;

    /// Reap workers' descendants that became our children and have ended. Called by the group
    /// itself once a second and after each worker's end.
    void reap_adopted();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Descendants of `root` by /proc, children before grandchildren, `root` not included.
std::vector<pid_t> descendants(pid_t root);

/// Kill and reap everything below this process, whoever started it: the last act of the launcher
/// (also when its guard has died) and of the guard. `spared`: children that were there before it
/// started. Returns what lives on after `patience`.
std::vector<pid_t> kill_descendants(milliseconds patience, const std::set<pid_t>& spared = {});

}  // namespace ty::agent
