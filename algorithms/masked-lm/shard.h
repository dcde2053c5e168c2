// SPDX-License-Identifier: Apache-2.0
// The samples of one file in memory: three bytes a token where the vocabulary and the positions are
// ordinary ones, as they are in ERNIE's files.
#pragma once

#include "common/base/log.h"
#include "masked-lm/sample_line.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace alg {

class Shard {
public:
    explicit Shard(std::int64_t vocabulary) : narrow_(vocabulary <= 65536) {}
    void add(const SampleFields& fields);
    /// Gives back what the vectors hold in reserve.
    void finish();

    std::int64_t size() const { return static_cast<std::int64_t>(follows_.size()); }
    std::int32_t length(std::int64_t sample) const {
        return static_cast<std::int32_t>(begins_[sample + 1] - begins_[sample]);
    }
    bool follows(std::int64_t sample) const { return follows_[sample] != 0; }
    std::int64_t number_of(std::int64_t sample) const { return lines_[sample]; }
    std::size_t bytes() const;

    // Token `i` of a sample.
    std::int32_t token(std::int64_t sample, std::int32_t i) const {
        const std::size_t at = begins_[sample] + i;
        return narrow_ ? tokens16_[at] : static_cast<std::int32_t>(tokens32_[at]);
    }
    std::int32_t type(std::int64_t sample, std::int32_t i) const {
        return marks_[begins_[sample] + i] >> 2;
    }
    std::int32_t position(std::int64_t sample, std::int32_t i) const {
        return positions_.empty() ? i : positions_[begins_[sample] + i];
    }
    /// -1, 0 or 1.
    std::int8_t word(std::int64_t sample, std::int32_t i) const {
        return static_cast<std::int8_t>((marks_[begins_[sample] + i] & 3) - 1);
    }
    void set_line(std::int64_t number) { line_ = static_cast<std::uint32_t>(number); }

private:
    bool narrow_;
    std::uint32_t line_ = 0;
    std::vector<std::uint16_t> tokens16_;
    std::vector<std::uint32_t> tokens32_;
    std::vector<std::uint8_t> marks_;      ///< type << 2 | word label + 1
    std::vector<std::int32_t> positions_;  ///< empty: each sample counts from 0
    std::vector<std::size_t> begins_ = {0};
    std::vector<std::uint32_t> lines_;  ///< of the file; with it, randomness outlives skipped lines
    std::vector<std::uint8_t> follows_;
};

/// Largest number of sentence types a shard can tell apart.
inline constexpr std::int64_t kMostTypes = 64;

/// Reads the whole file. Bad lines are skipped, named and counted; a file that is damaged gives the
/// lines before the damage and is named. Throws Failure for a file that is missing, no gzip file,
/// or has no usable line.
Shard read_shard(const std::filesystem::path& file, const SampleLimits& limits, SkipLog& skips);

}  // namespace alg
