// SPDX-License-Identifier: Apache-2.0
// A machine that hangs, as a fault that is asked for: every process of a box but its init stands
// still. Used by the runner's loop, which holds again and again: a process may be forked while we
// look.
#pragma once

#include "agent/sandbox/box_plan.h"

#include <map>

#include <sys/types.h>

namespace ty::agent {

class Freezer {
public:
    /// `box`: the process the agent started for it.
    Freezer(pid_t box, Rung rung) : box_(box), rung_(rung) {}
    /// Lets go of all that were stopped here.
    ~Freezer();
    Freezer(const Freezer&) = delete;
    Freezer& operator=(const Freezer&) = delete;

    /// SIGSTOP to those that do not stand still yet.
    void hold();

private:
    const pid_t box_;
    const Rung rung_;
    std::map<pid_t, long long> held_;  ///< with their start time: numbers are used again
};

}  // namespace ty::agent
