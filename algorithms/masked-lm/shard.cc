// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/shard.h"

#include "masked-lm/gz_lines.h"

#include <numeric>

namespace alg {

void Shard::add(const SampleFields& fields) {
    if (narrow_) {
        const std::size_t at = tokens16_.size();
        tokens16_.resize(at + fields.tokens.size());
        for (std::size_t i = 0; i < fields.tokens.size(); ++i)
            tokens16_[at + i] = static_cast<std::uint16_t>(fields.tokens[i]);
    } else {
        tokens32_.insert(tokens32_.end(), fields.tokens.begin(), fields.tokens.end());
    }
    const std::size_t at = marks_.size();
    marks_.resize(at + fields.tokens.size());
    for (std::size_t i = 0; i < fields.tokens.size(); ++i)
        marks_[at + i] = static_cast<std::uint8_t>((fields.types[i] << 2) | (fields.words[i] + 1));
    if (!fields.counted && positions_.empty()) {  // the first unusual one: write the others out
        for (std::size_t sample = 0; sample + 1 < begins_.size(); ++sample)
            for (std::size_t i = 0; i < begins_[sample + 1] - begins_[sample]; ++i)
                positions_.push_back(static_cast<std::int32_t>(i));
    }
    if (!fields.counted || !positions_.empty())
        positions_.insert(positions_.end(), fields.positions.begin(), fields.positions.end());
    begins_.push_back(begins_.back() + fields.tokens.size());
    lines_.push_back(line_);
    follows_.push_back(fields.follows ? 1 : 0);
}

void Shard::finish() {
    tokens16_.shrink_to_fit();
    tokens32_.shrink_to_fit();
    marks_.shrink_to_fit();
    positions_.shrink_to_fit();
    begins_.shrink_to_fit();
    lines_.shrink_to_fit();
    follows_.shrink_to_fit();
}

std::size_t Shard::bytes() const {
    return tokens16_.capacity() * 2 + tokens32_.capacity() * 4 + marks_.capacity() +
           positions_.capacity() * 4 + begins_.capacity() * sizeof(std::size_t) +
           lines_.capacity() * 4 + follows_.capacity();
}

Shard read_shard(const std::filesystem::path& file, const SampleLimits& limits, SkipLog& skips) {
    GzLines lines(file);
    Shard shard(limits.vocabulary);
    SampleFields fields;
    while (const auto line = lines.next()) {
        shard.set_line(lines.number());
        if (const auto bad = parse_sample(*line, limits, fields))
            skips.skip(bad->kind, format("{}:{}", file.string(), lines.number()), bad->what);
        else
            shard.add(fields);
    }
    if (!lines.damage().empty())
        skips.skip("damaged file", format("{}:{}", file.string(), lines.number() + 1),
                   format("{}; the {} samples before are used", lines.damage(), shard.size()));
    if (shard.size() == 0)
        fail("{}: none of its {} lines is a usable sample{}", file.string(), lines.number(),
             lines.damage().empty() ? "" : "; " + lines.damage());
    shard.finish();
    return shard;
}

}  // namespace alg
