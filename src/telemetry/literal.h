// SPDX-License-Identifier: Apache-2.0
// The fixed text that every match of a regex must contain. Lines without it need no regex engine.
//
// Conservative: whatever is not plainly understood gives no literal, never a wrong one.
// Private to telemetry/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ty::telemetry {

struct Literal {
    std::string text;  ///< empty: nothing is known
    enum class Place {
        start,
        anywhere
    } place = Place::anywhere;  ///< start: every match begins with it
};

/// For a regex that RE2 accepts.
Literal required_literal(std::string_view regex);

}  // namespace ty::telemetry
