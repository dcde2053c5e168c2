// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a clock they set, lines by number.
#pragma once

#include "telemetry/telemetry.h"

#include <atomic>

namespace ty::telemetry {

class TestClock final : public Clock {
public:
    Instant now() const override { return Instant(milliseconds(millis.load())); }
    Monotonic monotonic() const override { return Monotonic(milliseconds(millis.load())); }
    std::atomic<long long> millis{1'700'000'000'000};
};

inline const StreamId kStream{std::string(kTrainingJobs), "job-1/algo-1-1762116564"};

/// "line <n>" at second n, for n in [first, first + count).
inline std::vector<LogLine> numbered_lines(std::uint64_t first, std::size_t count) {
    std::vector<LogLine> lines;
    for (std::uint64_t n = first; n < first + count; ++n)
        lines.push_back({.time = Instant(seconds(n)), .text = "line " + std::to_string(n)});
    return lines;
}

}  // namespace ty::telemetry
