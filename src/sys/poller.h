// SPDX-License-Identifier: Apache-2.0
// Many descriptors, one thread: the agent supervisor's and the local engine's loop.
#pragma once

#include "base/time.h"

#include <functional>
#include <map>
#include <stop_token>
#include <string>

namespace ty::sys {

/// Calls back for readable (or hung-up) descriptors and for timers, on the thread in run().
/// Not thread-safe; wake it from elsewhere through a WakeFd added to it.
class Poller {
public:
    using Callback = std::function<void()>;
    void add(int fd, Callback on_readable);
    void remove(int fd);
    /// One-shot; replaces an earlier timer of the same name.
    void set_timer(const std::string& name, Deadline at, Callback fn);
    void cancel_timer(const std::string& name);
    /// Serve one poll round; returns false when stop was requested.
    bool run_once(Deadline by, const std::stop_token& stop);

private:
    struct Timer {
        Deadline at;
        Callback fn;
    };
    std::map<int, Callback> callbacks_;
    std::map<std::string, Timer> timers_;
};

}  // namespace ty::sys
