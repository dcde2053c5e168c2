// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"
#include "masked-lm/test_files.h"

#include <doctest/doctest.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

TEST_CASE("no mutation of a line gets past the parser with numbers it must not have") {
    alg::Random random(11);
    const std::string bytes = "0123456789 ;;;---\n\r\tx.\xff";
    for (int round = 0; round < 20'000; ++round) {
        std::string line = alg::test::sample_line(static_cast<int>(random.below(17'000)),
                                                  static_cast<int>(random.below(20)),
                                                  static_cast<int>(random.below(20)), 1);
        line.pop_back();
        for (std::uint64_t edits = random.below(4); edits > 0 && !line.empty(); --edits) {
            const std::size_t at = random.below(line.size());
            switch (random.below(4)) {
                case 0:
                    line[at] = bytes[random.below(bytes.size())];
                    break;
                case 1:
                    line.erase(at, 1 + random.below(5));
                    break;
                case 2:
                    line.insert(at, 1, bytes[random.below(bytes.size())]);
                    break;
                default:
                    line.insert(at, line.substr(at, random.below(30)));
            }
        }
        CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(line.data()),
                                     line.size()) == 0);
    }
}
