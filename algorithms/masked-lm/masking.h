// SPDX-License-Identifier: Apache-2.0
// Which tokens the model is asked for. 15 % of the words (or characters) are chosen; of their
// tokens 80 % become [MASK], 10 % a random token, 10 % stay. All chosen ones are asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace alg {

enum class MaskBy { word, character };

struct MaskRules {
    std::int64_t vocabulary = 18000;
    std::int64_t cls = 1, sep = 2, mask = 3;  ///< ids of the special tokens
};

/// Masks one sample in place. `words`: -1 special, 0 first token of a word, 1 a further one. Chosen
/// places, counted from `first`, are appended to `selected`, what was there to `labels`. The
/// outcome is a function of the arguments alone; `key` is the sample's.
///
/// By word, the uniform number of a word's first token decides about the whole word and, with the
/// thresholds of characters, about that token; every later token has a number of its own.
void mask_sample(std::span<std::int64_t> tokens, std::span<const std::int8_t> words, MaskBy by,
                 const MaskRules& rules, std::uint64_t key, std::int64_t first,
                 std::vector<std::int64_t>& selected, std::vector<std::int64_t>& labels);

}  // namespace alg
