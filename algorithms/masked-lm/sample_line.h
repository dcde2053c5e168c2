// SPDX-License-Identifier: Apache-2.0
// One line of ERNIE's pre-training files: five fields separated by `;`, each of integers separated
// by spaces: token ids; sentence ids; position ids; word labels (-1 special token, 0 a word's
// first, 1 its further ones); whether the second sentence follows the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alg {

/// What a model can take.
struct SampleLimits {
    std::int64_t vocabulary = 18000, types = 2, positions = 513, longest = 512;
};

struct SampleFields {
    std::vector<std::int32_t> tokens, types, positions;
    std::vector<std::int8_t> words;
    bool follows = false;
    bool counted = false;  ///< positions are 0, 1, 2, …
};

struct BadLine {
    std::string kind;  ///< counted by this
    std::string what;
};

/// Reads `line` into `fields` (reused). nullopt: it is a sample. No input makes it throw anything
/// but bad_alloc.
std::optional<BadLine> parse_sample(std::string_view line, const SampleLimits& limits,
                                    SampleFields& fields);

}  // namespace alg
