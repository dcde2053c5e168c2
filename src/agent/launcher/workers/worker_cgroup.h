// SPDX-License-Identifier: Apache-2.0
// One cgroup v2 group per generation, where this process may make one: an additional net for what
// the process tree does not show. No limits are set; the agent's sandbox does that.
#pragma once

#include "sys/sys.h"

#include <string>
#include <vector>

namespace ty::agent {

/// Where the unified hierarchy shows our own group: "/sys/fs/cgroup/user.slice/…"; empty when there
/// is none. Reads mountinfo and cgroup of `proc_self`.
sys::fs::path own_cgroup(const sys::fs::path& proc_self = "/proc/self");

/// Kill and remove the groups of launchers that are dead: after a launcher and its guard were
/// killed at the same moment, somebody may live in one.
void remove_leftover_groups();

class WorkerCgroup {
public:
    WorkerCgroup() = default;
    /// <own group>/trainyard-<pid>-<pid namespace>-<name>; one that is not open where it cannot be
    /// made. Removes what dead launchers left first.
    static WorkerCgroup create(const std::string& name);
    WorkerCgroup(WorkerCgroup&&) noexcept = default;
    WorkerCgroup& operator=(WorkerCgroup&& other) noexcept;
    ~WorkerCgroup();

    bool is_open() const { return procs_.is_open(); }
    /// To be written "0" by who joins; -1 without a group.
    int procs() const { return procs_.get(); }
    const sys::fs::path& folder() const { return folder_; }
    /// SIGKILL to every member, atomically. False where it cannot (kernels before 5.14).
    bool kill() const;
    /// Remove it and what members have made below it; waits a moment for the last to leave.
    void remove();
    /// oom_kill of the group or the closest one above that counts; -1 when none does.
    long long oom_kills() const;

private:
    sys::fs::path folder_;
    sys::Fd procs_;
};

}  // namespace ty::agent
