// SPDX-License-Identifier: Apache-2.0
// Characters as Hugging Face's BERT normaliser sees them. Its tables are of several Unicode
// versions; unicode_tables.inc (from make_unicode_tables.py) says what it really does. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace alg {

bool is_dropped(std::uint32_t code);  ///< controls, formats, private use, U+FFFD
bool is_space(std::uint32_t code);
bool is_chinese(std::uint32_t code);      ///< spaces are put around it
bool is_mark(std::uint32_t code);         ///< an accent that is stripped after decomposition
bool is_punctuation(std::uint32_t code);  ///< a word of its own
int combining_class(std::uint32_t code);  ///< canonical; 0: nothing is reordered across it
std::uint32_t lowered(std::uint32_t code);
/// Appends the canonical decomposition.
void decompose(std::uint32_t code, std::vector<std::uint32_t>& into);

/// The code point at `at`, which moves behind it. An invalid byte is U+FFFD (which is dropped), as
/// Python's and Rust's replacing decoders have it.
std::uint32_t decode(std::string_view text, std::size_t& at);
void append_utf8(std::uint32_t code, std::string& to);

}  // namespace alg
