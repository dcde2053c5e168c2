// SPDX-License-Identifier: Apache-2.0
// Linux as RAII: files, waits, children, sockets, signals, host facts.
//
// File names here must differ from those of the C library's sys/ folder (wait.h, socket.h,
// mount.h): src/ is on the include path, and ours would be found first.
#pragma once

#include "sys/child.h"
#include "sys/fd.h"
#include "sys/host.h"
#include "sys/poller.h"
#include "sys/signals.h"
#include "sys/tcp.h"
#include "sys/waiting.h"
