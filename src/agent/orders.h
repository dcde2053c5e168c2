// SPDX-License-Identifier: Apache-2.0
// What the agent has been told from outside: stop the job, or give everything up. Written by the
// uplink's and the pump's threads and the signal reader, obeyed by the main thread.
#pragma once

#include "base/sync.h"
#include "sys/sys.h"

#include <algorithm>
#include <stop_token>

namespace ty::agent {

class Orders {
public:
    struct Now {
        bool stop = false;  ///< end the program kindly, keep its results
        bool gone = false;  ///< nobody waits for results: end it at once
        seconds grace{120};
    };

    void stop(seconds grace) {
        now_.with([&](Now& now) {
            now.stop = true;
            now.grace = std::max(seconds(0), grace);
        });
        halted_.request_stop();
        wake_.notify();
    }
    void give_up() {
        now_.with([](Now& now) { now.gone = true; });
        halted_.request_stop();
        gone_.request_stop();
        wake_.notify();
    }
    Now now() const {
        return now_.with([](const Now& now) { return now; });
    }
    /// Stop or give up: preparations end early.
    std::stop_token halted() const { return halted_.get_token(); }
    /// Give up: even the upload of results ends.
    std::stop_token gone() const { return gone_.get_token(); }
    /// Readable after each order; the main thread drains it.
    sys::WakeFd& wake() { return wake_; }

private:
    Sync<Now> now_;
    std::stop_source halted_, gone_;
    sys::WakeFd wake_;
};

}  // namespace ty::agent
