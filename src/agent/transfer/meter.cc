// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/meter.h"

#include "base/format.h"

#include <array>

namespace ty::agent {

std::string of_bytes(std::uint64_t done, std::uint64_t all) {
    constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    double scale = 1;
    while (unit + 1 < kUnits.size() && static_cast<double>(all) >= scale * 1024) {
        scale *= 1024;
        ++unit;
    }
    if (unit == 0) return format("{} of {} B", done, all);
    return format("{:.1f} of {:.1f} {}", static_cast<double>(done) / scale,
                  static_cast<double>(all) / scale, kUnits[unit]);
}

std::string progress_text(std::string_view what, const Progress& progress, milliseconds elapsed) {
    const auto millis = static_cast<double>(elapsed.count() > 0 ? elapsed.count() : 1);
    const auto rate =
        static_cast<std::uint64_t>(static_cast<double>(progress.bytes) * 1000.0 / millis);
    std::string text = format("{}: ", what);
    if (progress.all_objects > 0)
        text += format("{} of {} objects, ", progress.objects, progress.all_objects);
    return text + of_bytes(progress.bytes, progress.all_bytes) + ", " + to_string(Bytes(rate)) +
           "/s";
}

void Meter::update(const Progress& progress) {
    const Monotonic now = clock_.monotonic();
    if (now - last_ < kEvery) return;
    last_ = now;
    report_(progress_text(what_, progress, std::chrono::duration_cast<milliseconds>(now - start_)));
}

}  // namespace ty::agent
