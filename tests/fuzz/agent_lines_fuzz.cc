// SPDX-License-Identifier: Apache-2.0
// What a program prints, cut into lines: whatever the bytes and however the reads fall, every line
// is valid UTF-8 within the cap, and for text that was valid nothing is lost or changed.
#include "agent/shipping/line_cutter.h"
#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::size_t step = data[0] + 1u;
    const std::size_t cap = data[1] + 8u;
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    ty::agent::LineCutter cutter(cap);
    std::string joined;
    const ty::agent::LineCutter::Sink sink = [&](std::string_view line) {
        TY_ASSERT(ty::is_valid_utf8(line));
        TY_ASSERT(line.size() <= 3 * cap);
        TY_ASSERT(line.find('\n') == std::string_view::npos);
        joined.append(line);
    };
    for (std::size_t at = 0; at < text.size(); at += step) cutter.feed(text.substr(at, step), sink);
    cutter.flush(sink);
    if (ty::is_valid_utf8(text) && text.find('\r') == std::string_view::npos) {
        std::string expected(text);
        std::erase(expected, '\n');
        TY_ASSERT(joined == expected);
    }
    return 0;
}
