// SPDX-License-Identifier: Apache-2.0
// Two processes watch each other, so that killing either leaves nothing behind.
//
// The process the user started becomes the guard: it forwards signals, and when the launcher proper
// (its child) dies, kills every descendant; both are subreapers, so nothing escapes by daemonising.
// When the guard dies the launcher gets guard_died_signal() and does the same. Only killing both at
// the same moment leaves something: what workers have started; the workers themselves die in any
// case.
#pragma once

#include <functional>

namespace ty::agent {

/// Real-time signal the launcher proper receives when its guard has died.
int guard_died_signal();

/// Fork; run `body` in the child, guard it in the parent; returns the exit code to leave with. Call
/// before any thread or descriptor exists. The child leads its own process group unless stdin is a
/// terminal (job control needs one group). All catchable signals but SIGCHLD, SIGTSTP, SIGCONT and
/// the like are forwarded.
int run_guarded(const std::function<int()>& body);

}  // namespace ty::agent
