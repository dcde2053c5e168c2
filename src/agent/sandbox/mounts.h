// SPDX-License-Identifier: Apache-2.0
// The file system a job sees: a small tmpfs root, the host's system folders read-only, private
// places to write, a minimal /dev. Runs inside the new mount namespace, before the program exists.
#pragma once

#include "agent/sandbox/box_plan.h"

namespace ty::agent {

/// Build the root under plan.root and make it "/". The caller has its own mount, PID and IPC
/// namespaces. `real_root`: the caller is uid 0 of the machine, so that files only root may touch
/// are covered. Throws with the step that failed.
enum class Privilege { real_root, user };
void build_root(const BoxPlan& plan, Privilege privilege);

}  // namespace ty::agent
