// SPDX-License-Identifier: Apache-2.0
// Reading back what to_string wrote, for this module's rows.
#pragma once

#include "jobs/jobs.h"

#include <optional>
#include <string_view>

namespace ty::jobs {

std::optional<Secondary> parse_secondary(std::string_view text);

}  // namespace ty::jobs
