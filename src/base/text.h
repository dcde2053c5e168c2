// SPDX-License-Identifier: Apache-2.0
// Small text tools shared by every parser: splitting, hex, base64, percent-coding, UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty {

/// Lets maps keyed by std::string be searched with a string_view.
struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
        return std::hash<std::string_view>()(text);
    }
};

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
bool equals_ignoring_case(std::string_view a, std::string_view b);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

std::string to_hex(std::span<const std::byte> bytes);
std::optional<std::string> from_hex(std::string_view text);
std::string to_base64(std::span<const std::byte> bytes);
/// Strict RFC 4648 with padding; nullopt otherwise.
std::optional<std::string> from_base64(std::string_view text);

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// Percent-encode everything but A-Z a-z 0-9 - . _ ~ (RFC 3986); '/' too unless kept.
enum class Slash { encode, keep };
std::string percent_encode(std::string_view text, Slash slash = Slash::encode);
/// nullopt on a broken escape. '+' stays '+'.
std::optional<std::string> percent_decode(std::string_view text);
/// application/x-www-form-urlencoded and query strings: '+' is a space. Order kept.
std::vector<std::pair<std::string, std::string>> parse_query(std::string_view text);

bool is_valid_utf8(std::string_view text);
/// Replaces invalid sequences with U+FFFD.
std::string to_valid_utf8(std::string_view text);
/// Cut to at most `count` code points, never inside one.
std::string_view truncate_utf8(std::string_view text, std::size_t count);
std::size_t count_code_points(std::string_view text);

/// Decimal integer that fits; the whole text must be consumed.
std::optional<long long> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// The candidates closest to `wanted` by edit distance, best first, at most `count`.
std::vector<std::string> nearest(std::string_view wanted, std::span<const std::string> candidates,
                                 std::size_t count);

}  // namespace ty
