// SPDX-License-Identifier: Apache-2.0
// Lines of pre-training files, from anybody. With clang and -fsanitize=fuzzer a libFuzzer program;
// algorithms/masked-lm/sample_line_fuzz_test.cc runs it on mutations of real lines in every build.
#include "masked-lm/shard.h"

#include <cstdlib>

using namespace alg;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const SampleLimits limits{.vocabulary = 18000, .types = 2, .positions = 513, .longest = 512};
    SampleFields fields;
    if (parse_sample({reinterpret_cast<const char*>(data), size}, limits, fields)) return 0;
    // What is taken is within its limits.
    const std::size_t length = fields.tokens.size();
    if (length == 0 || length > 512 || fields.types.size() != length ||
        fields.positions.size() != length || fields.words.size() != length)
        std::abort();
    for (std::size_t i = 0; i < length; ++i)
        if (fields.tokens[i] < 0 || fields.tokens[i] >= 18000 || fields.types[i] < 0 ||
            fields.types[i] > 1 || fields.positions[i] < 0 || fields.positions[i] >= 513 ||
            fields.words[i] < -1 || fields.words[i] > 1)
            std::abort();
    Shard shard(limits.vocabulary);
    shard.add(fields);
    for (std::int32_t i = 0; i < shard.length(0); ++i)
        if (shard.token(0, i) != fields.tokens[i] || shard.word(0, i) != fields.words[i] ||
            shard.type(0, i) != fields.types[i] || shard.position(0, i) != fields.positions[i])
            std::abort();
    return 0;
}
