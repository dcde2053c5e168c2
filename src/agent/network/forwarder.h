// SPDX-License-Identifier: Apache-2.0
// Connections to a listener inside a job's network, carried on to an address of the machine's
// network. Bytes pass through one buffer for each direction; either side may end its half first.
//
// One thread of its own; its methods may be called from any.
#pragma once

#include "base/sync.h"
#include "sys/sys.h"

#include <cstdint>
#include <string>

namespace ty::agent {

class Forwarder {
public:
    struct Target {
        std::string host;  ///< address literal
        std::uint16_t port = 0;
    };
    /// `listener` is non-blocking. A target that refuses resets the connection it was meant for.
    Forwarder(sys::Fd listener, Target target);
    ~Forwarder();
    /// While held, nothing is accepted and not a byte passes; nobody is told. Holds when it
    /// returns.
    void hold(bool held);

private:
    struct Wish {
        bool held = false, obeyed = true;
    };
    void run(const std::stop_token& stop);

    const sys::Fd listener_;
    const Target target_;
    sys::WakeFd wake_;
    Sync<Wish> wish_;
    TaskGroup tasks_;
};

}  // namespace ty::agent
