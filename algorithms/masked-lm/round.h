// SPDX-License-Identifier: Apache-2.0
// The samples of a portion of an epoch in memory, the false pairs made of them, and batches of
// both, masked and packed.
#pragma once

#include "masked-lm/filelist.h"
#include "masked-lm/masking.h"
#include "masked-lm/shard.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace alg {

/// A file's samples as they take part in a round.
struct RoundPart {
    std::shared_ptr<const Shard> shard;
    int file = 0;   ///< number in the list
    int place = 1;  ///< in the epoch's order
    MaskBy mask_by = MaskBy::word;
};

/// Numbers of one batch without padding: tokens one after the other.
struct Batch {
    std::vector<std::int64_t> tokens, types, positions;
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> selected, labels;  ///< places among `tokens`, and what was there
    std::vector<std::int64_t> follows;           ///< one a sample
    std::int64_t number = 0;                     ///< of the micro-batch in the round
    // Of the first sample, for the log.
    int file = 0, place = 0;
    MaskBy mask_by = MaskBy::word;

    std::int64_t samples() const { return static_cast<std::int64_t>(lengths.size()); }
};

class Round {
public:
    Round(std::vector<RoundPart> parts, std::uint64_t seed, std::int64_t epoch);

    /// Adds false pairs: in windows of `window` samples in random order, the first sentence of each
    /// with the second one of the next. Pairs longer than `longest` are left out and counted.
    /// Throws Failure naming the file and line of a sample that is not a true pair.
    void add_false_pairs(const std::vector<ListedFile>& files, std::int64_t longest,
                         std::int64_t sep, std::int64_t window = 1000);

    std::int64_t epoch() const { return epoch_; }
    const std::vector<RoundPart>& parts() const { return parts_; }
    /// Of all samples, in order of their numbers.
    const std::vector<std::int32_t>& lengths() const { return lengths_; }
    std::int64_t pairs_too_long() const { return too_long_; }

    /// Samples `numbers`, masked. Any thread.
    Batch batch(std::span<const std::int64_t> numbers, const MaskRules& rules) const;

private:
    /// Tokens [from, to) of a sample; the second piece is empty unless it is a false pair.
    struct Piece {
        std::uint32_t part = 0, sample = 0;
        std::int32_t from = 0, to = 0;
    };
    struct Sample {
        Piece first, second;
        bool false_pair = false;
    };
    std::uint64_t key_of_sample(const Sample& sample) const;

    std::vector<RoundPart> parts_;
    std::uint64_t seed_;
    std::int64_t epoch_;
    std::vector<Sample> samples_;
    std::vector<std::int32_t> lengths_;
    std::int64_t too_long_ = 0;
};

/// Whether a file's samples are masked by word in this epoch.
MaskBy mask_by_of(const ListedFile& file, int number, std::uint64_t seed, std::int64_t epoch);

}  // namespace alg
