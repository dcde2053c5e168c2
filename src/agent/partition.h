// SPDX-License-Identifier: Apache-2.0
// A cut network, as a fault that is asked for: while it lasts the link of the host is down and this
// agent neither sends nor hears anything. A thread of its own ends it, whatever the agent waits
// for.
#pragma once

#include "base/sync.h"
#include "base/time.h"

#include <functional>
#include <stop_token>

namespace ty::agent {

class Partition {
public:
    using SetLink = std::function<void(bool up)>;

    Partition();
    ~Partition();
    Partition(const Partition&) = delete;
    Partition& operator=(const Partition&) = delete;

    /// Cut for so long from now on; one that lasts may be prolonged. Any thread.
    void begin(milliseconds time);
    /// The link that is taken down with it; an empty function: there is none any more. Called on
    /// the partition's thread; when this returns, no earlier function is running.
    void attach(SetLink set_link);
    bool is_cut() const;
    /// Blocks while it lasts. False: stopped.
    bool wait_connected(const std::stop_token& stop) const;
    /// Stop is requested when the next one begins, or has begun.
    std::stop_token cut() const;

private:
    struct State {
        Monotonic until;
        bool cut = false;
        bool busy = false;  ///< the thread is in set_link
        SetLink set_link;
        std::stop_source source;
    };
    void work(const std::stop_token& stop);
    void set_link(bool up);

    mutable Sync<State> state_;
    TaskGroup tasks_;
};

}  // namespace ty::agent
