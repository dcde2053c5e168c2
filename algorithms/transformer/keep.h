// SPDX-License-Identifier: Apache-2.0
// Which elements one use of dropout keeps, as a function of its key and the element's number:
// recomputed in the backward pass instead of stored.
//
// Elements come in groups of 32: number g * 32 + l takes the lower half of hash(g * 16 + l) for l <
// 16 and the upper half of hash(g * 16 + l - 16) otherwise, so a vector register of 16 hashes
// serves 32 elements. 16 bits decide: p is rounded to a multiple of 2^-16, and the scale follows
// the rounded p. Numbers repeat after 2^33 elements.
#pragma once

#include <cstdint>

namespace alg {

struct Keep {
    std::uint32_t key0 = 0, key1 = 0;
    std::uint32_t threshold = 0;  ///< halves below it are dropped; 0: everything is kept
    float scale = 1;              ///< of what is kept

    bool active() const { return threshold != 0; }
    std::uint32_t hash(std::uint32_t counter) const {
        std::uint32_t x = counter + key0;
        x = (x ^ (x >> 16)) * 0x7FEB352DU;
        x = ((x ^ key1) ^ (x >> 15)) * 0x846CA68BU;
        return x ^ (x >> 16);
    }
    /// 0 or the scale.
    float at(std::uint64_t number) const {
        const auto counter = static_cast<std::uint32_t>(number >> 5 << 4 | (number & 15));
        const std::uint32_t h = hash(counter);
        const std::uint32_t half = (number & 16) != 0 ? h >> 16 : h & 0xFFFFU;
        return half < threshold ? 0.0F : scale;
    }
};

}  // namespace alg
