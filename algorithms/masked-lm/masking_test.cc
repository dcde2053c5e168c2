// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/masking.h"

#include "common/base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace alg;

namespace {

constexpr std::int64_t kToken = 777;

struct Counts {
    double words = 0, chosen_words = 0;
    double tokens = 0, masked = 0, random = 0, kept = 0;
    double later_masked = 0, later_random = 0, later_kept = 0;
};

/// Many samples of [CLS] words… [SEP], words of one to four tokens.
Counts count(MaskBy by, int samples) {
    Counts counts;
    for (int sample = 0; sample < samples; ++sample) {
        std::vector<std::int64_t> tokens = {1};
        std::vector<std::int8_t> words = {-1};
        for (int word = 0; word < 40; ++word)
            for (int i = 0; i <= word % 4; ++i) {
                tokens.push_back(kToken);
                words.push_back(i == 0 ? 0 : 1);
            }
        tokens.push_back(2);
        words.push_back(-1);
        std::vector<std::int64_t> selected, labels;
        mask_sample(tokens, words, by, {}, key_of(7, sample), 0, selected, labels);
        CHECK(
            std::all_of(labels.begin(), labels.end(), [](auto label) { return label == kToken; }));
        CHECK(tokens.front() == 1);
        CHECK(tokens.back() == 2);
        counts.words += 40;
        counts.tokens += static_cast<double>(tokens.size()) - 2;
        for (const std::int64_t at : selected) {
            const bool later = words[at] == 1;
            if (!later) ++counts.chosen_words;
            ++(tokens[at] == 3        ? later ? counts.later_masked : counts.masked
               : tokens[at] == kToken ? later ? counts.later_kept : counts.kept
               : later                ? counts.later_random
                                      : counts.random);
        }
    }
    return counts;
}

/// Within four standard deviations of a binomial share.
bool near(double hits, double of, double share) {
    return std::abs(hits - of * share) < 4 * std::sqrt(of * share * (1 - share));
}

}  // namespace

TEST_CASE(
    "by word, 15 of 100 words are chosen whole, and 80/10/10 of their tokens masked, random, "
    "kept") {
    const Counts counts = count(MaskBy::word, 3000);
    CHECK(near(counts.chosen_words, counts.words, 0.15));
    CHECK(near(counts.masked, counts.chosen_words, 0.8));
    CHECK(near(counts.random, counts.chosen_words, 0.1));
    CHECK(near(counts.kept, counts.chosen_words, 0.1));
    const double later = counts.later_masked + counts.later_random + counts.later_kept;
    CHECK(near(counts.later_masked, later, 0.8));
    CHECK(near(counts.later_random, later, 0.1));
    CHECK(near(counts.later_kept, later, 0.1));
}

TEST_CASE("by character, 15 of 100 tokens are chosen, and 80/10/10 of them masked, random, kept") {
    const Counts counts = count(MaskBy::character, 3000);
    const double masked = counts.masked + counts.later_masked;
    const double random = counts.random + counts.later_random;
    const double kept = counts.kept + counts.later_kept;
    const double chosen = masked + random + kept;
    CHECK(near(chosen, counts.tokens, 0.15));
    CHECK(near(masked, chosen, 0.8));
    CHECK(near(random, chosen, 0.1));
    CHECK(near(kept, chosen, 0.1));
}

TEST_CASE("a word is chosen with all its tokens or not at all") {
    for (int sample = 0; sample < 200; ++sample) {
        std::vector<std::int64_t> tokens(10, kToken);
        const std::vector<std::int8_t> words = {-1, 0, 1, 1, 0, 0, 1, -1, 1, -1};
        std::vector<std::int64_t> selected, labels;
        mask_sample(tokens, words, MaskBy::word, {}, key_of(1, sample), 100, selected, labels);
        const auto has = [&](std::int64_t at) {
            return std::find(selected.begin(), selected.end(), at) != selected.end();
        };
        CHECK(has(101) == has(102));
        CHECK(has(101) == has(103));
        CHECK(has(105) == has(106));
        CHECK_FALSE(has(100));
        CHECK_FALSE(has(107));
        CHECK_FALSE(has(108));  // a continuation of no word
    }
}

TEST_CASE("random tokens are any but the first one, evenly") {
    std::map<std::int64_t, int> seen;
    for (int sample = 0; sample < 4000; ++sample) {
        std::vector<std::int64_t> tokens(100, 9);
        std::vector<std::int8_t> words(100, 0);
        std::vector<std::int64_t> selected, labels;
        mask_sample(tokens, words, MaskBy::word, {.vocabulary = 9, .mask = 100}, key_of(3, sample),
                    0, selected, labels);
        for (const std::int64_t token : tokens) ++seen[token];
    }
    CHECK_FALSE(seen.contains(0));
    double draws = 0;
    for (int token = 1; token < 9; ++token) draws += seen[token];
    for (int token = 1; token < 9; ++token) CHECK(near(seen[token], draws, 1.0 / 8));
}

TEST_CASE("the outcome is the key's: a golden sample") {
    std::vector<std::int64_t> tokens = {1};
    std::vector<std::int8_t> words = {-1};
    for (int i = 0; i < 30; ++i) {
        tokens.push_back(100 + i);
        words.push_back(static_cast<std::int8_t>(i % 3 == 2));
    }
    tokens.push_back(2);
    words.push_back(-1);
    const auto run = [&](std::uint64_t key, MaskBy by) {
        std::vector<std::int64_t> masked = tokens, selected, labels;
        mask_sample(masked, words, by, {}, key, 0, selected, labels);
        return std::pair(selected, masked);
    };
    const auto [selected, masked] = run(6, MaskBy::word);
    CHECK(selected == std::vector<std::int64_t>{1, 14, 15, 16, 25, 28, 29, 30});
    std::vector<std::int64_t> there;
    for (const std::int64_t at : selected) there.push_back(masked[at]);
    CHECK(there == std::vector<std::int64_t>{13601, 3, 3, 3, 3, 3, 128, 3});
    CHECK(run(6, MaskBy::word) == run(6, MaskBy::word));
    CHECK(run(6, MaskBy::word) != run(7, MaskBy::word));
    CHECK(run(6, MaskBy::character).first == std::vector<std::int64_t>{1, 6, 14, 16, 25, 28, 29});
}
