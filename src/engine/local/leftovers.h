// SPDX-License-Identifier: Apache-2.0
// What an agent may leave behind when it is killed: processes of its session, its descendants, and
// whatever inherited its environment. Used by release() only.
#pragma once

#include "base/time.h"

#include <span>
#include <string>

namespace ty::engine {

/// Name of the variable every agent gets; its value is the run folder.
inline constexpr const char* kRunVariable = "TRAINYARD_RUN";

struct Leftovers {
    int session = 0;     ///< the agent's pid; 0 unless nobody else can have it
    std::string folder;  ///< value of kRunVariable in their environment
};

/// SIGKILL them until none is found or the deadline passes; all in one walk through the processes,
/// of which a machine may have many. Returns how many were killed. Never throws: what cannot be
/// signalled belongs to somebody else.
int kill_leftovers(std::span<const Leftovers> which, Deadline by);

}  // namespace ty::engine
