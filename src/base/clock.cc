// SPDX-License-Identifier: Apache-2.0
// The only file that reads the system's clocks.
#include "base/time.h"

#include <algorithm>

namespace ty {

Instant SystemClock::now() const {
    return std::chrono::time_point_cast<milliseconds>(std::chrono::system_clock::now());
}

Monotonic SystemClock::monotonic() const {
    return std::chrono::steady_clock::now();
}

Deadline Deadline::in(std::chrono::nanoseconds duration) {
    return Deadline(std::chrono::steady_clock::now() + duration);
}

bool Deadline::passed() const {
    return point_ && std::chrono::steady_clock::now() >= *point_;
}

milliseconds Deadline::left() const {
    if (!point_) return std::chrono::hours(24 * 365);
    const auto left = *point_ - std::chrono::steady_clock::now();
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(left));
}

int Deadline::poll_timeout() const {
    if (!point_) return -1;
    return static_cast<int>(std::min<long long>(left().count(), 24LL * 3600 * 1000));
}

}  // namespace ty
