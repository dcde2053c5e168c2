// SPDX-License-Identifier: Apache-2.0
// Progress of a transfer as people read it, at most twice a second.
#pragma once

#include "base/bytes.h"
#include "base/time.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ty::agent {

struct Progress {
    std::size_t objects = 0, all_objects = 0;
    std::uint64_t bytes = 0, all_bytes = 0;
};

/// "3.1 of 9.9 MiB": both numbers in the unit of the second.
std::string of_bytes(std::uint64_t done, std::uint64_t all);
/// "<what>: 12 of 40 objects, 3.1 of 9.9 MiB, 120.0 MiB/s".
std::string progress_text(std::string_view what, const Progress& progress, milliseconds elapsed);

/// Throttle: calls `report` with the text when kEvery has passed since the last call. One thread.
class Meter {
public:
    static constexpr milliseconds kEvery{500};
    Meter(std::string what, const Clock& clock, std::function<void(std::string)> report)
        : what_(std::move(what)),
          clock_(clock),
          report_(std::move(report)),
          start_(clock.monotonic()),
          last_(start_) {}
    void update(const Progress& progress);

private:
    std::string what_;
    const Clock& clock_;
    std::function<void(std::string)> report_;
    Monotonic start_, last_;
};

}  // namespace ty::agent
