// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/round.h"

#include "common/base/error.h"
#include "common/base/random.h"
#include "masked-lm/purposes.h"

#include <algorithm>
#include <numeric>

namespace alg {

MaskBy mask_by_of(const ListedFile& file, int number, std::uint64_t seed, std::int64_t epoch) {
    Random random(key_of(seed, epoch, Purpose::mask_type, number));
    return random.uniform() < file.mask_word_prob ? MaskBy::word : MaskBy::character;
}

Round::Round(std::vector<RoundPart> parts, std::uint64_t seed, std::int64_t epoch)
    : parts_(std::move(parts)), seed_(seed), epoch_(epoch) {
    std::int64_t count = 0;
    for (const RoundPart& part : parts_) count += part.shard->size();
    samples_.reserve(static_cast<std::size_t>(count));
    lengths_.reserve(static_cast<std::size_t>(count));
    for (std::uint32_t p = 0; p < parts_.size(); ++p) {
        const Shard& shard = *parts_[p].shard;
        for (std::int64_t i = 0; i < shard.size(); ++i) {
            samples_.push_back({.first = {p, static_cast<std::uint32_t>(i), 0, shard.length(i)}});
            lengths_.push_back(shard.length(i));
        }
    }
}

void Round::add_false_pairs(const std::vector<ListedFile>& files, std::int64_t longest,
                            std::int64_t sep, std::int64_t window) {
    const std::int64_t count = static_cast<std::int64_t>(samples_.size());
    std::vector<std::int32_t> first_length(samples_.size());  // up to and with the first [SEP]
    for (std::int64_t i = 0; i < count; ++i) {
        const Piece& piece = samples_[i].first;
        const Shard& shard = *parts_[piece.part].shard;
        const std::string& name = files[static_cast<std::size_t>(parts_[piece.part].file)].listed;
        if (!shard.follows(piece.sample))
            fail(
                "{}:{}: generate_neg_sample needs files of true pairs only, and this one's "
                "next_sentence_label is 0; set generate_neg_sample to false",
                name, shard.number_of(piece.sample));
        std::int32_t at = 0;
        while (at < piece.to && shard.token(piece.sample, at) != sep) ++at;
        if (at == piece.to)
            fail("{}:{}: generate_neg_sample needs a [SEP] (id {}) between the sentences", name,
                 shard.number_of(piece.sample), sep);
        first_length[i] = at + 1;
    }
    std::vector<std::int64_t> order(samples_.size());
    std::iota(order.begin(), order.end(), 0);
    shuffle(order.begin(), order.end(), Random(key_of(seed_, epoch_, Purpose::pairs)));
    for (std::int64_t begin = 0; begin < count; begin += window) {
        const std::int64_t size = std::min(window, count - begin);
        for (std::int64_t i = 0; i < size && size > 1; ++i) {
            const std::int64_t left = order[begin + i], right = order[begin + (i + 1) % size];
            Sample pair{samples_[left].first, samples_[right].first, true};
            pair.first.to = first_length[left];
            pair.second.from = first_length[right];
            const std::int32_t length = pair.first.to + pair.second.to - pair.second.from;
            if (length > longest) {
                ++too_long_;
                continue;
            }
            samples_.push_back(pair);
            lengths_.push_back(length);
        }
    }
}

/// By file and line: the same whatever else is in the round or was skipped.
std::uint64_t Round::key_of_sample(const Sample& sample) const {
    const RoundPart& part = parts_[sample.first.part];
    return key_of(seed_, epoch_, Purpose::masking, part.file,
                  part.shard->number_of(sample.first.sample), sample.false_pair);
}

Batch Round::batch(std::span<const std::int64_t> numbers, const MaskRules& rules) const {
    Batch batch;
    std::size_t total = 0;
    for (const std::int64_t number : numbers) total += static_cast<std::size_t>(lengths_[number]);
    batch.tokens.reserve(total);
    batch.types.reserve(total);
    batch.positions.reserve(total);
    std::vector<std::int8_t> words;
    for (const std::int64_t number : numbers) {
        const Sample& sample = samples_[static_cast<std::size_t>(number)];
        const std::size_t first = batch.tokens.size();
        words.clear();
        for (const bool second : {false, true}) {
            const Piece& piece = second ? sample.second : sample.first;
            const Shard& shard = *parts_[piece.part].shard;
            for (std::int32_t i = piece.from; i < piece.to; ++i) {
                batch.tokens.push_back(shard.token(piece.sample, i));
                // A false pair's sentences are numbered anew.
                batch.types.push_back(sample.false_pair ? std::int64_t{second}
                                                        : shard.type(piece.sample, i));
                batch.positions.push_back(
                    sample.false_pair ? static_cast<std::int64_t>(batch.tokens.size() - 1 - first)
                                      : shard.position(piece.sample, i));
                words.push_back(shard.word(piece.sample, i));
            }
        }
        const RoundPart& part = parts_[sample.first.part];
        mask_sample(std::span(batch.tokens).subspan(first), words, part.mask_by, rules,
                    key_of_sample(sample), static_cast<std::int64_t>(first), batch.selected,
                    batch.labels);
        batch.lengths.push_back(lengths_[number]);
        batch.follows.push_back(!sample.false_pair &&
                                parts_[sample.first.part].shard->follows(sample.first.sample));
        if (batch.lengths.size() == 1) {
            batch.file = part.file;
            batch.place = part.place;
            batch.mask_by = part.mask_by;
        }
    }
    return batch;
}

}  // namespace alg
