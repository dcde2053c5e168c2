// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/masking.h"

#include "common/base/random.h"

namespace alg {

namespace {

constexpr float kChosen = 0.15F;
// Of the chosen, as shares of the interval the number falls into.
constexpr float kRandom = 0.2F, kKept = 0.1F;

/// The uniform number of token `i`: its place in the stream is its place in the sample.
float number_of(std::uint64_t key, std::size_t i) {
    return Random(key_of(key, i)).uniform();
}

}  // namespace

void mask_sample(std::span<std::int64_t> tokens, std::span<const std::int8_t> words, MaskBy by,
                 const MaskRules& rules, std::uint64_t key, std::int64_t first,
                 std::vector<std::int64_t>& selected, std::vector<std::int64_t>& labels) {
    const std::uint64_t replacements = key_of(key, ~std::uint64_t{0});
    // `number` lies in [0, base]: the upper four fifths are masked, then random, then kept.
    const auto choose = [&](std::size_t i, float number, float base) {
        selected.push_back(first + static_cast<std::int64_t>(i));
        labels.push_back(tokens[i]);
        if (number > base * kRandom) {
            tokens[i] = rules.mask;
        } else if (number > base * kKept) {  // any token but the first, [PAD]
            Random random(key_of(replacements, i));
            tokens[i] = 1 + static_cast<std::int64_t>(
                                random.below(static_cast<std::uint64_t>(rules.vocabulary - 1)));
        }
    };
    if (by == MaskBy::character) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (tokens[i] == rules.cls || tokens[i] == rules.sep) continue;
            const float number = number_of(key, i);
            if (number <= kChosen) choose(i, number, kChosen);
        }
        return;
    }
    bool chosen = false;  // the word we are in
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (words[i] < 0) {
            chosen = false;
        } else if (words[i] == 0) {
            const float number = number_of(key, i);
            chosen = number <= kChosen;
            if (chosen) choose(i, number, kChosen);
        } else if (chosen) {
            choose(i, number_of(key, i), 1);
        }
    }
}

}  // namespace alg
