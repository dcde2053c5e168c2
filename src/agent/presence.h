// SPDX-License-Identifier: Apache-2.0
// How a process that the engine started, agent or network, is found again by a later daemon.
#pragma once

#include "sys/fd.h"

namespace ty::agent {

/// Write `<folder>/agent.pid`, "<pid> <start ticks>": there even if the daemon dies before it has
/// noted the number itself. Not synced to the disk: it has to survive processes, not the machine.
void write_pid_file(const sys::fs::path& folder);

/// The engine's lock (TRAINYARD_LOCK_FD) stays with this process; what it starts must not hold it.
void keep_lock();

}  // namespace ty::agent
