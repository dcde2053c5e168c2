// SPDX-License-Identifier: Apache-2.0
// Linux as RAII: files, waits, children, sockets, signals, host facts, cgroups, mounts.
#pragma once

#include "sys/child.h"
#include "sys/fd.h"
#include "sys/host.h"
#include "sys/poller.h"
#include "sys/signals.h"
#include "sys/socket.h"
#include "sys/wait.h"
