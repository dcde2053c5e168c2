// SPDX-License-Identifier: Apache-2.0
// Lengths of time as people write them on a command line.
#pragma once

#include "base/time.h"

#include <optional>
#include <string_view>

namespace ty::cli {

/// "500ms", "30s", "2m", "1.5h", "1d"; a bare number is seconds. nullopt for anything else, and for
/// more than a year.
std::optional<milliseconds> parse_duration(std::string_view text);

}  // namespace ty::cli
