// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace alg {

namespace {

struct Range {
    std::uint32_t first, last;
};
struct ValueRange {
    std::uint32_t first, last;
    std::int32_t value;
};

#include "text/unicode_tables.inc"

template <typename Table>
auto find(const Table& table, std::uint32_t code) {
    const auto found = std::lower_bound(table.begin(), table.end(), code,
                                        [](const auto& r, std::uint32_t c) { return r.last < c; });
    return found != table.end() && found->first <= code ? &*found : nullptr;
}

}  // namespace

bool is_dropped(std::uint32_t code) {
    return find(kDropped, code) != nullptr;
}
bool is_space(std::uint32_t code) {
    return find(kSpaces, code) != nullptr;
}
bool is_chinese(std::uint32_t code) {
    return find(kChinese, code) != nullptr;
}
bool is_mark(std::uint32_t code) {
    return find(kMarks, code) != nullptr;
}
bool is_punctuation(std::uint32_t code) {
    return find(kPunctuation, code) != nullptr;
}
int combining_class(std::uint32_t code) {
    const ValueRange* range = find(kClasses, code);
    return range == nullptr ? 0 : range->value;
}

std::uint32_t lowered(std::uint32_t code) {
    if (const ValueRange* range = find(kLowered, code))
        return static_cast<std::uint32_t>(static_cast<std::int32_t>(code) + range->value);
    return static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

void decompose(std::uint32_t code, std::vector<std::uint32_t>& into) {
    std::array<utf8proc_int32_t, 16> found{};  // the longest has four
    utf8proc_ssize_t count = 0;
    if (find(kWhole, code) == nullptr) {
        int boundary = 0;
        count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), found.data(),
                                        found.size(), UTF8PROC_DECOMPOSE, &boundary);
    }
    if (count <= 0 || count > static_cast<utf8proc_ssize_t>(found.size())) {
        into.push_back(code);
        return;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i)
        into.push_back(static_cast<std::uint32_t>(found[static_cast<std::size_t>(i)]));
}

std::uint32_t decode(std::string_view text, std::size_t& at) {
    constexpr std::uint32_t kInvalid = 0xFFFD;
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::uint32_t first = byte(at++);
    if (first < 0x80) return first;
    int more = 0;
    std::uint32_t code = 0, low = 0x80, high = 0xBF;  // what the second byte may be
    if (first >= 0xC2 && first <= 0xDF) {
        more = 1, code = first & 0x1F;
    } else if (first >= 0xE0 && first <= 0xEF) {
        more = 2, code = first & 0x0F;
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
        more = 3, code = first & 0x07;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
    } else {
        return kInvalid;
    }
    for (; more > 0; --more, low = 0x80, high = 0xBF) {
        if (at >= text.size() || byte(at) < low || byte(at) > high) return kInvalid;
        code = code << 6 | (byte(at++) & 0x3FU);
    }
    return code;
}

void append_utf8(std::uint32_t code, std::string& to) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const utf8proc_ssize_t size =
        utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
    for (utf8proc_ssize_t i = 0; i < size; ++i)
        to.push_back(static_cast<char>(bytes[static_cast<std::size_t>(i)]));
}

}  // namespace alg
