// SPDX-License-Identifier: Apache-2.0
#include "telemetry/literal_scan.h"

#include "base/error.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ty::telemetry {
namespace {

/// How seldom a byte is in logs, roughly.
int rarity(char c) {
    if (c >= 'A' && c <= 'Z') return 4;
    if (c >= 'a' && c <= 'z') return std::strchr("etaoinsrl", c) != nullptr ? 2 : 3;
    if (c >= '0' && c <= '9') return 1;
    if (c == ' ' || c == '.' || c == ':' || c == '=' || c == '-') return 1;
    return 4;
}

std::uint32_t rarest_window(std::string_view text, std::size_t width) {
    std::size_t best = 0;
    int best_score = -1;
    for (std::size_t at = 0; at + width <= text.size(); ++at) {
        int score = 0;
        for (std::size_t i = 0; i < width; ++i) score += rarity(text[at + i]);
        if (score > best_score) {
            best = at;
            best_score = score;
        }
    }
    return std::uint32_t(best);
}

}  // namespace

LiteralScan::LiteralScan(std::vector<std::string> literals, Speed speed)
    : literals_(std::move(literals)) {
    for (std::size_t i = 0; i < literals_.size(); ++i) {
        const std::string& text = literals_[i];
        TY_ASSERT(!text.empty());
        const std::size_t bucket = i % kBuckets;
        const auto bit = std::uint8_t(1u << bucket);
        buckets_[bucket].push_back(std::uint32_t(i));
        fingerprint_at_.push_back(rarest_window(text, std::min(kBytes, text.size())));
        for (std::size_t k = 0; k < kBytes; ++k) {
            const std::size_t at = fingerprint_at_[i] + k;
            for (std::size_t value = 0; value < 256; ++value) {
                // A text shorter than the fingerprint takes any byte behind it.
                if (at < text.size() && value != static_cast<unsigned char>(text[at])) continue;
                accept_[k][value] |= bit;
                low_[k][value & 15] |= bit;
                high_[k][value >> 4] |= bit;
            }
        }
    }
#if defined(__x86_64__)
    has_avx2_ = speed == Speed::best && __builtin_cpu_supports("avx2") != 0;
#else
    (void)speed;
#endif
}

void LiteralScan::verify(std::string_view block, std::size_t at, unsigned buckets,
                         std::vector<Hit>& hits) const {
    for (; buckets != 0; buckets &= buckets - 1) {
        for (const std::uint32_t id : buckets_[std::size_t(__builtin_ctz(buckets))]) {
            const std::string& text = literals_[id];
            if (at < fingerprint_at_[id]) continue;
            const std::size_t start = at - fingerprint_at_[id];
            if (start + text.size() <= block.size() &&
                std::memcmp(block.data() + start, text.data(), text.size()) == 0)
                hits.push_back({.offset = std::uint32_t(start), .literal = id});
        }
    }
}

void LiteralScan::find_portable(std::string_view block, std::size_t from,
                                std::vector<Hit>& hits) const {
    const auto byte_at = [block](std::size_t at) {
        return static_cast<unsigned char>(at < block.size() ? block[at] : '\0');
    };
    for (std::size_t at = from; at < block.size(); ++at) {
        const unsigned buckets =
            accept_[0][byte_at(at)] & accept_[1][byte_at(at + 1)] & accept_[2][byte_at(at + 2)];
        if (buckets != 0) verify(block, at, buckets, hits);
    }
}

#if defined(__x86_64__)
// Per byte of the block, two table look-ups (low and high nibble) give the buckets whose
// fingerprint has that byte there; three neighbours combined leave few candidates.
__attribute__((target("avx2"))) std::size_t LiteralScan::find_avx2(std::string_view block,
                                                                   std::vector<Hit>& hits) const {
    constexpr std::size_t kStep = 32;
    constexpr std::size_t kAhead = 1024;
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i low[kBytes], high[kBytes];
    for (std::size_t k = 0; k < kBytes; ++k) {
        low[k] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(low_[k].data())));
        high[k] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(high_[k].data())));
    }
    std::size_t at = 0;
    for (; at + kStep + kBytes <= block.size(); at += kStep) {
        _mm_prefetch(block.data() + at + kAhead, _MM_HINT_T0);
        __m256i found = _mm256_set1_epi8(-1);
#pragma GCC unroll 3
        for (std::size_t k = 0; k < kBytes; ++k) {
            const __m256i bytes =
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block.data() + at + k));
            const __m256i by_low = _mm256_shuffle_epi8(low[k], _mm256_and_si256(bytes, nibble));
            const __m256i by_high =
                _mm256_shuffle_epi8(high[k], _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
            found = _mm256_and_si256(found, _mm256_and_si256(by_low, by_high));
        }
        if (_mm256_testz_si256(found, found) != 0) continue;
        alignas(32) std::array<std::uint8_t, kStep> buckets;
        _mm256_store_si256(reinterpret_cast<__m256i*>(buckets.data()), found);
        auto places = ~static_cast<unsigned>(
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(found, _mm256_setzero_si256())));
        for (; places != 0; places &= places - 1) {
            const auto i = std::size_t(__builtin_ctz(places));
            verify(block, at + i, buckets[i], hits);
        }
    }
    return at;
}
#else
std::size_t LiteralScan::find_avx2(std::string_view, std::vector<Hit>&) const {
    return 0;
}
#endif

void LiteralScan::find(std::string_view block, std::vector<Hit>& hits) const {
    hits.clear();
    if (literals_.empty()) return;
    find_portable(block, has_avx2_ ? find_avx2(block, hits) : 0, hits);
}

}  // namespace ty::telemetry
