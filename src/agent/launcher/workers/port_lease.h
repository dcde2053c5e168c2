// SPDX-License-Identifier: Apache-2.0
// A MASTER_PORT for the next generation: bound (not listened on) from the lease until just before
// the worker that will use it starts, outside the kernel's range of ephemeral ports. One launcher
// hands none out twice before the whole range is used up.
#pragma once

#include "sys/sys.h"

#include <set>

namespace ty::agent {

class PortLease {
public:
    PortLease(int low, int high) : low_(low), high_(high) {}
    /// The leased port; leases one if none is held. `wanted` is tried first when not 0.
    /// Throws exhausted when the range has none.
    int hold(int wanted = 0);
    /// Free it for the worker; returns the port.
    int release();
    int held() const { return port_; }

private:
    int low_, high_;
    int port_ = 0;
    sys::Fd socket_;
    std::set<int> used_;
};

/// Somebody listens there (a bind with SO_REUSEADDR fails).
bool port_is_taken(int port);

}  // namespace ty::agent
