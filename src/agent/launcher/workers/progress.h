// SPDX-License-Identifier: Apache-2.0
// Hang detection from outside: a rank that used no processor, did no I/O and wrote no output for
// the whole of --hang-timeout is stuck. Off by default: long waits of a healthy program look the
// same.
#pragma once

#include "base/time.h"
#include "sys/sys.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ty::agent {

struct Activity {
    long long cpu_ticks = 0;  ///< hundredths of a second, with its descendants
    long long io_bytes = 0;   ///< rchar + wchar; 0 when unreadable
    long long output = 0;
    char state = '?';
};
/// Sum over the process and its descendants, from /proc below `root`.
Activity read_activity(pid_t pid, const sys::fs::path& root = "/");

class ProgressWatch {
public:
    explicit ProgressWatch(milliseconds timeout) : timeout_(timeout) {}
    void begin(Monotonic now);  ///< forget everything: a generation starts
    /// Feed one reading; a change of any part is progress (processor: above 1 % of one core).
    void observe(int local_rank, const Activity& activity, Monotonic now);
    /// Local ranks without progress for the timeout, longest first.
    std::vector<int> stuck(Monotonic now) const;

private:
    struct Seen {
        Activity last;
        Monotonic since;         ///< of the last progress
        Monotonic window;        ///< processor time is compared over about a second:
        long long window_ticks;  ///< a tick is too coarse for less
    };
    milliseconds timeout_;
    std::map<int, Seen> seen_;
};

/// What a stuck process waits for: state, wchan, system call and kernel stack of each thread where
/// readable, and py-spy's or gdb's view if one is installed (bounded by `by`).
std::string describe_stuck(pid_t pid, Deadline by);

}  // namespace ty::agent
