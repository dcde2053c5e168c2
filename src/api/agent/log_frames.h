// SPDX-License-Identifier: Apache-2.0
// The body of POST /agent/v1/logs: frames "<epoch ms> <byte count>\n<bytes>\n". The bytes come from
// a training program and may be anything but a line feed.
#pragma once

#include "telemetry/telemetry.h"

#include <string_view>
#include <vector>

namespace ty::api {

/// Throws invalid "MalformedLogs" naming the frame and what is wrong; nothing is taken then.
std::vector<telemetry::LogLine> parse_log_frames(std::string_view body);

}  // namespace ty::api
