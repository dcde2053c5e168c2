// SPDX-License-Identifier: Apache-2.0
// The one bounded wait on a descriptor (R19), and a way to wake it.
#pragma once

#include "base/time.h"
#include "sys/fd.h"

#include <stop_token>

namespace ty::sys {

enum class Readiness { readable, writable, either };
enum class Waited { ready, timed_out, stopped };

/// poll(2) on fd until ready, deadline or stop. Hang-ups and errors count as ready.
Waited wait(int fd, Readiness readiness, Deadline by, const std::stop_token& stop = {});

/// Sleep until the deadline or stop; the only way to let time pass. Returns false when stopped.
bool pause(Deadline by, const std::stop_token& stop);

/// eventfd: notify() from any thread makes fd() readable until drain().
class WakeFd {
public:
    WakeFd();
    int fd() const { return fd_.get(); }
    void notify();
    void drain();

private:
    Fd fd_;
};

}  // namespace ty::sys
