// SPDX-License-Identifier: Apache-2.0
// Results to object storage, whatever the outcome. One node writes its archives at their place;
// several write parts, wait until all have, and the one that is told to joins them.
#pragma once

#include "agent/node_context.h"
#include "plan/plan.h"

namespace ty::agent {

/// Everything from the phase "uploading" to the end. `outcome` becomes a failure when the results
/// of a completed program cannot be stored, and interrupted when the wait for the others ends so.
/// True when a model is at its final place, put there by this node.
bool collect_results(const NodeContext& node, plan::Outcome& outcome);

}  // namespace ty::agent
