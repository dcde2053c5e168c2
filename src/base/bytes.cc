// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include "base/format.h"

namespace ty {

std::string to_string(Bytes bytes) {
    constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    if (bytes.count() < 1024) return format("{} B", bytes.count());
    double value = double(bytes.count()) / 1024.0;
    int unit = 0;
    while (value >= 1024.0 && unit < 4) {
        value /= 1024.0;
        ++unit;
    }
    return format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace ty
