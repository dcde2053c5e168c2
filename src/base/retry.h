// SPDX-License-Identifier: Apache-2.0
// How long to wait before trying again: exponential, capped, with jitter given by the caller.
#pragma once

#include "base/time.h"

#include <algorithm>

namespace ty {

class Backoff {
public:
    Backoff(milliseconds first, milliseconds cap) : next_(first), first_(first), cap_(cap) {}
    /// The delay to wait now; doubles the following one up to the cap.
    milliseconds next() {
        const milliseconds delay = next_;
        next_ = std::min(cap_, next_ * 2);
        return delay;
    }
    void reset() { next_ = first_; }

private:
    milliseconds next_;
    milliseconds first_;
    milliseconds cap_;
};

}  // namespace ty
