// SPDX-License-Identifier: Apache-2.0
// Signals as readable descriptors. Block before any thread starts.
#pragma once

#include "sys/fd.h"

#include <initializer_list>
#include <span>

namespace ty::sys {

/// signalfd over the given signals, which are blocked in the calling thread (and threads it
/// starts).
class SignalFd {
public:
    explicit SignalFd(std::span<const int> signals);
    SignalFd(std::initializer_list<int> signals)
        : SignalFd(std::span(signals.begin(), signals.size())) {}
    int fd() const { return fd_.get(); }
    /// Next pending signal number, 0 when none.
    int next();

private:
    Fd fd_;
};

/// SIGPIPE ignored: writes report EPIPE instead.
void ignore_sigpipe();

}  // namespace ty::sys
