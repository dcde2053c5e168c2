// SPDX-License-Identifier: Apache-2.0
// One job on one node, from the plan to the last event: stage, launch, supervise, collect, report.
#pragma once

#include "sys/fd.h"

namespace ty::agent {

/// `trainyard-agent run <folder>`: blocks until the job is over and everything about it has reached
/// the daemon, or nobody wants to know any more. Returns the exit status of the process. Throws
/// what keeps it from starting at all.
int run_agent(const sys::fs::path& folder);

}  // namespace ty::agent
