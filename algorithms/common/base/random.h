// SPDX-License-Identifier: Apache-2.0
// Random numbers as a function of a key and a counter: the same whatever the number of threads or
// ranks and wherever training resumed, so nothing of a generator has to be saved.
#pragma once

#include <cstdint>
#include <utility>

namespace alg {

/// SplitMix64's finaliser: every bit of the result depends on every bit of the input.
constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

/// A key from parts, e.g. key_of(seed, epoch, kShuffle). Order matters.
template <typename... Parts>
constexpr std::uint64_t key_of(std::uint64_t seed, Parts... parts) {
    ((seed = mix(seed ^ mix(static_cast<std::uint64_t>(parts)))), ...);
    return seed;
}

/// The stream of one key; copyable, 16 bytes. Satisfies UniformRandomBitGenerator.
class Random {
public:
    using result_type = std::uint64_t;
    explicit constexpr Random(std::uint64_t key) : key_(key) {}
    static constexpr result_type min() { return 0; }
    static constexpr result_type max() { return ~result_type{0}; }
    constexpr result_type operator()() { return mix(key_ + 0xD1B54A32D192ED03ULL * counter_++); }
    /// In [0, 1), 24 bits.
    constexpr float uniform() { return static_cast<float>((*this)() >> 40) * 0x1p-24F; }
    /// In [0, n), n >= 1; the bias is below n / 2^64.
    constexpr std::uint64_t below(std::uint64_t n) {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * n) >> 64);
    }

private:
    std::uint64_t key_;
    std::uint64_t counter_ = 0;
};

/// Fisher-Yates with our own draws: std::shuffle may differ between standard libraries.
template <typename Iterator>
void shuffle(Iterator first, Iterator last, Random random) {
    for (auto n = last - first; n > 1; --n) {
        const auto chosen = static_cast<decltype(n)>(random.below(static_cast<std::uint64_t>(n)));
        std::swap(first[n - 1], first[chosen]);
    }
}

}  // namespace alg
