// SPDX-License-Identifier: Apache-2.0
// Finds every occurrence of a few short texts in a block, in one pass: a three-byte fingerprint per
// text, compared 32 bytes at a time where the processor has AVX2, byte by byte elsewhere; hits are
// verified.
//
// Immutable after construction: any thread. Private to telemetry/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ty::telemetry {

class LiteralScan {
public:
    struct Hit {
        std::uint32_t offset;   ///< where the text starts in the block
        std::uint32_t literal;  ///< which of the texts
    };
    enum class Speed { best, portable };

    /// No text may be empty; the same text may come twice. `portable` is for tests.
    explicit LiteralScan(std::vector<std::string> literals, Speed speed = Speed::best);

    /// All occurrences, ascending by fingerprint position; for one literal ascending by offset.
    void find(std::string_view block, std::vector<Hit>& hits) const;

private:
    static constexpr std::size_t kBytes = 3;
    static constexpr std::size_t kBuckets = 8;

    void verify(std::string_view block, std::size_t at, unsigned buckets,
                std::vector<Hit>& hits) const;
    void find_portable(std::string_view block, std::size_t from, std::vector<Hit>& hits) const;
    std::size_t find_avx2(std::string_view block, std::vector<Hit>& hits) const;

    std::vector<std::string> literals_;
    std::vector<std::uint32_t> fingerprint_at_;  ///< per literal: offset of its fingerprint
    std::array<std::vector<std::uint32_t>, kBuckets> buckets_;
    std::array<std::array<std::uint8_t, 256>, kBytes> accept_{};       ///< byte -> buckets
    std::array<std::array<std::uint8_t, 16>, kBytes> low_{}, high_{};  ///< nibble -> buckets
    bool has_avx2_ = false;
};

}  // namespace ty::telemetry
