// SPDX-License-Identifier: Apache-2.0
// The life of one job on one node, top-down: join the network, bring data and checkpoint, prepare,
// train, keep checkpoints in step, collect. Main thread: it alone starts boxes, which die with it.
#pragma once

#include "agent/node_context.h"
#include "agent/sandbox/sandbox.h"
#include "plan/plan.h"

namespace ty::agent {

/// Returns how it ended; what goes wrong becomes an Outcome. Blocks until nothing of it is left.
plan::Finished live(const NodeContext& node, ProbeResult probe);

}  // namespace ty::agent
