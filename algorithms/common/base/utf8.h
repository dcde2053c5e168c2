// SPDX-License-Identifier: Apache-2.0
// Whether bytes are text.
#pragma once

#include <cstddef>
#include <string_view>

namespace alg {

/// As Python, JSON and Rust accept it: no over-long forms, no surrogates, nothing beyond U+10FFFF.
inline bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
        const unsigned char lead = byte(i);
        const std::size_t more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead >= 0x80 && (lead < 0xc2 || lead > 0xf4)) return false;
        if (more >= text.size() - i) return false;
        for (std::size_t k = 1; k <= more; ++k)
            if ((byte(i + k) & 0xc0) != 0x80) return false;
        if (more > 1) {
            const unsigned char next = byte(i + 1);
            // Over-long forms, surrogates, and beyond U+10FFFF.
            if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
                (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f))
                return false;
        }
        i += more + 1;
    }
    return true;
}

}  // namespace alg
