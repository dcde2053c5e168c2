// SPDX-License-Identifier: Apache-2.0
// Log frames of hostile agents: parsed completely or refused, and what was parsed re-frames to the
// same lines.
#include "api/agent/log_frames.h"
#include "base/error.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    std::vector<ty::telemetry::LogLine> lines;
    try {
        lines = ty::api::parse_log_frames(body);
    } catch (const ty::Error&) {
        return 0;
    }
    std::string again;
    for (const auto& line : lines)
        again +=
            ty::format("{} {}\n{}\n", ty::to_epoch_millis(line.time), line.text.size(), line.text);
    if (ty::api::parse_log_frames(again).size() != lines.size()) std::abort();
    return 0;
}
