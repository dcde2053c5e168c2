// SPDX-License-Identifier: Apache-2.0
// Entering namespaces and giving rights up: the steps of the box that are about the process, not
// about files.
#pragma once

#include "agent/sandbox/mounts.h"

#include <string>

namespace ty::agent {

/// unshare(2) mount, PID, IPC and UTS namespaces; a user namespace that maps the caller to root
/// where that is needed. The PID namespace begins with the next child. `user` and `network` (-1:
/// none) are joined first, and then no user namespace is created. Throws denied with the kernel's
/// reason and, where known, the setting that forbids it.
Privilege enter_namespaces(int user = -1, int network = -1);

/// A network namespace of its own for the caller, which must have one thread; a user namespace
/// around it where that is needed. Throws as enter_namespaces().
Privilege enter_network_namespace();

/// What a program in a container may keep: the usual container set without CAP_MKNOD, and no way
/// back up (no_new_privs).
void drop_rights();

/// Die with the parent, whatever happens to it.
void die_with_parent();

/// Join a cgroup by its folder. Throws what the kernel says.
void join_cgroup(const std::string& folder);

}  // namespace ty::agent
