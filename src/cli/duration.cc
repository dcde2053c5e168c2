// SPDX-License-Identifier: Apache-2.0
#include "cli/duration.h"

#include "base/text.h"

#include <cmath>

namespace ty::cli {

std::optional<milliseconds> parse_duration(std::string_view text) {
    constexpr struct {
        std::string_view name;
        double millis;
    } kUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}, {"", 1e3}};
    constexpr double kMost = 366 * 8.64e7;
    for (const auto& unit : kUnits) {
        if (!text.ends_with(unit.name)) continue;
        const std::string_view number = text.substr(0, text.size() - unit.name.size());
        if (number.empty() || number.find_first_not_of("0123456789.") != number.npos)
            return std::nullopt;
        const auto value = parse_double(number);
        if (!value || !(*value * unit.millis <= kMost)) return std::nullopt;
        return milliseconds(std::llround(*value * unit.millis));
    }
    return std::nullopt;
}

}  // namespace ty::cli
