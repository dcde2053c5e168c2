// SPDX-License-Identifier: Apache-2.0
// A clock that moves when told. Any thread.
#pragma once

#include "base/time.h"

#include <atomic>

namespace ty::test {

class FakeClock final : public Clock {
public:
    explicit FakeClock(Instant start = from_epoch_millis(1'762'116'564'000)) : now_(start) {}
    Instant now() const override { return now_.load(); }
    Monotonic monotonic() const override {
        return Monotonic(
            std::chrono::duration_cast<Monotonic::duration>(now_.load().time_since_epoch()));
    }
    void advance(milliseconds by) { now_.store(now_.load() + by); }
    void set(Instant to) { now_.store(to); }

private:
    std::atomic<Instant> now_;
};

}  // namespace ty::test
