// SPDX-License-Identifier: Apache-2.0
// Limits on memory, processors and processes through cgroup v2, where a folder for them may be
// made.
#pragma once

#include "base/bytes.h"
#include "sys/fd.h"

#include <string>

namespace ty::agent {

struct CgroupLimits {
    Bytes memory;  ///< zero: unlimited
    int cpus = 0;
    int processes = 0;
    bool any() const { return memory.count() > 0 || cpus > 0 || processes > 0; }
};

/// Owned cgroup; removed with the object, when it is empty by then.
class Cgroup {
public:
    Cgroup() = default;
    /// Tries the places above our own group, nearest first; at(): empty when none would do. `root`
    /// is the mount of cgroup v2, `self` what /proc/self/cgroup says.
    static Cgroup create(const std::string& name, const CgroupLimits& limits,
                         const sys::fs::path& root = "/sys/fs/cgroup",
                         const sys::fs::path& self = "/proc/self/cgroup");
    Cgroup(Cgroup&& other) noexcept
        : folder_(std::move(other.folder_)), why_not_(std::move(other.why_not_)) {
        other.folder_.clear();
    }
    Cgroup& operator=(Cgroup&& other) noexcept;
    ~Cgroup();

    bool is_open() const { return !folder_.empty(); }
    const sys::fs::path& folder() const { return folder_; }
    const std::string& why_not() const { return why_not_; }
    /// Times the kernel killed a process of it for want of memory.
    long long oom_kills() const;

private:
    void remove();
    sys::fs::path folder_;
    std::string why_not_;
};

/// The machine's count of out-of-memory kills; -1 when it does not say.
long long machine_oom_kills(const sys::fs::path& vmstat = "/proc/vmstat");

}  // namespace ty::agent
