// SPDX-License-Identifier: Apache-2.0
// The plan of an epoch: sample numbers are shuffled, sorted or bucketed, cut into batches, and
// dealt to ranks and micro-batches. Everything is computed from lengths and keys; nothing is read.
#include "common/data/plan.h"

#include "common/base/error.h"
#include "common/base/random.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace alg {
namespace {

// What a key is for, so that no two draws of an epoch share a stream.
enum Purpose : std::uint64_t { kSamples = 1, kBatches = 2 };

std::int32_t length_of(std::span<const std::int32_t> lengths, std::int64_t sample) {
    return lengths[static_cast<std::size_t>(sample)];
}

/// One batch being filled.
class Filling {
public:
    Filling(std::span<const std::int32_t> lengths, Fill fill, std::int64_t size)
        : lengths_(lengths), fill_(fill), size_(size) {
        if (size <= 0) fail("batch size {} holds no sample; give a positive one", size);
    }

    bool takes(std::int64_t sample) const {
        if (samples_.empty()) return true;  // a sample longer than the size is a batch of its own
        const auto count = static_cast<std::int64_t>(samples_.size());
        const std::int64_t length = length_of(lengths_, sample);
        switch (fill_) {
            case Fill::samples:
                return count < size_;
            case Fill::padded_tokens:
                return (count + 1) * std::max(longest_, length) <= size_;
            case Fill::tokens:
                return tokens_ + length <= size_;
        }
        return false;
    }
    void add(std::int64_t sample) {
        const std::int64_t length = length_of(lengths_, sample);
        longest_ = std::max(longest_, length);
        tokens_ += length;
        samples_.push_back(sample);
    }
    const Indices& samples() const { return samples_; }
    /// The stream ends here: is it a batch that drop_last keeps? Tokens are never known to be full.
    bool is_full() const {
        return fill_ == Fill::samples && static_cast<std::int64_t>(samples_.size()) == size_;
    }
    Indices take() {
        longest_ = tokens_ = 0;
        Indices taken(samples_.begin(), samples_.end());  // without spare capacity
        samples_.clear();
        return taken;
    }

private:
    std::span<const std::int32_t> lengths_;
    Fill fill_;
    std::int64_t size_;
    Indices samples_;
    std::int64_t longest_ = 0, tokens_ = 0;
};

void check(std::span<const std::int32_t> lengths, const PlanOptions& options) {
    if (options.world < 1 || options.accumulate < 1)
        fail("a plan for {} ranks with {} micro-batches each; both must be at least 1",
             options.world, options.accumulate);
    for (std::size_t i = 0; i < lengths.size(); ++i)
        if (lengths[i] < 0) fail("sample {} has length {}", i, lengths[i]);
}

std::vector<Indices> batches_of(Indices samples, std::span<const std::int32_t> lengths,
                                const PlanOptions& options, std::uint64_t key) {
    if (options.shuffle)
        samples = shuffled(std::move(samples), options.shuffle_buffer, key_of(key, kSamples));
    std::vector<Indices> batches;
    bool similar = true;  // batches follow each other by length
    if (!options.buckets.empty()) {
        batches = bucketed(samples, lengths, options.buckets, options.fill, options.size,
                           options.drop_last);
    } else {
        similar = options.sort_pool != 0;
        samples = sorted_in_pools(std::move(samples), lengths, options.sort_pool);
        batches = batched(samples, lengths, options.fill, options.size, options.drop_last);
    }
    if (options.shuffle && similar)
        shuffle(batches.begin(), batches.end(), Random(key_of(key, kBatches)));
    return batches;
}

double ratio_of(const std::vector<std::vector<Indices>>& of_rank,
                std::span<const std::int32_t> lengths) {
    double real = 0, padded = 0;
    for (const std::vector<Indices>& batches : of_rank) {
        for (const Indices& batch : batches) {
            std::int32_t longest = 0;
            for (const std::int64_t sample : batch) {
                longest = std::max(longest, length_of(lengths, sample));
                real += length_of(lengths, sample);
            }
            padded += static_cast<double>(longest) * static_cast<double>(batch.size());
        }
    }
    return padded > 0 ? real / padded : 1;
}

}  // namespace

Indices shuffled(Indices samples, std::int64_t buffer, std::uint64_t key) {
    if (buffer < 0) fail("shuffle buffer of {} samples; give 0 for a shuffle of all", buffer);
    Random random(key);
    const auto count = static_cast<std::int64_t>(samples.size());
    if (buffer == 0 || buffer >= count) {
        shuffle(samples.begin(), samples.end(), random);
        return samples;
    }
    // samples[i, i + buffer) is the window when number i is drawn: what lies at i changes places
    // with the chosen one, which is handed out.
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t window = std::min(buffer, count - i);
        const auto chosen =
            i + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(window)));
        std::swap(samples[static_cast<std::size_t>(i)], samples[static_cast<std::size_t>(chosen)]);
    }
    return samples;
}

Indices sorted_in_pools(Indices samples, std::span<const std::int32_t> lengths, std::int64_t pool) {
    if (pool < -1) fail("sort pool of {} samples; give 0 for none or -1 for all", pool);
    if (pool == 0) return samples;
    const auto count = static_cast<std::int64_t>(samples.size());
    if (pool == -1) pool = std::max<std::int64_t>(count, 1);
    for (std::int64_t first = 0; first < count; first += pool) {
        std::stable_sort(samples.begin() + first, samples.begin() + std::min(count, first + pool),
                         [lengths](std::int64_t a, std::int64_t b) {
                             return length_of(lengths, a) > length_of(lengths, b);
                         });
    }
    return samples;
}

std::vector<Indices> batched(const Indices& samples, std::span<const std::int32_t> lengths,
                             Fill fill, std::int64_t size, bool drop_last) {
    std::vector<Indices> batches;
    Filling filling(lengths, fill, size);
    for (const std::int64_t sample : samples) {
        if (!filling.takes(sample)) batches.push_back(filling.take());
        filling.add(sample);
    }
    if (!filling.samples().empty() && (!drop_last || filling.is_full()))
        batches.push_back(filling.take());
    return batches;
}

std::vector<Indices> bucketed(const Indices& samples, std::span<const std::int32_t> lengths,
                              std::span<const std::int32_t> bounds, Fill fill, std::int64_t size,
                              bool drop_last) {
    if (std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end())
        fail("bounds of buckets are not ascending: {}", fmt::join(bounds, ", "));
    std::vector<Indices> batches;
    std::vector<Filling> buckets(std::max<std::size_t>(bounds.size(), 1),
                                 Filling(lengths, fill, size));
    for (const std::int64_t sample : samples) {
        const auto bound =
            std::lower_bound(bounds.begin(), bounds.end(), length_of(lengths, sample));
        const auto number = static_cast<std::size_t>(bound - bounds.begin());
        Filling& bucket = buckets[std::min(number, buckets.size() - 1)];
        if (!bucket.takes(sample)) batches.push_back(bucket.take());
        bucket.add(sample);
    }
    for (Filling& bucket : buckets)
        if (!bucket.samples().empty() && (!drop_last || bucket.is_full()))
            batches.push_back(bucket.take());
    return batches;
}

EpochPlan::EpochPlan(std::span<const std::int32_t> lengths, const PlanOptions& options,
                     std::int64_t epoch)
    : world_(options.world), accumulate_(options.accumulate), shared_(true) {
    check(lengths, options);
    Indices all(lengths.size());
    std::iota(all.begin(), all.end(), 0);
    of_rank_.push_back(batches_of(std::move(all), lengths, options, key_of(options.seed, epoch)));
    fill_ratio_ = ratio_of(of_rank_, lengths);
}

EpochPlan::EpochPlan(std::span<const std::int32_t> lengths, std::span<const std::int32_t> owner,
                     const PlanOptions& options, std::int64_t epoch)
    : world_(options.world), accumulate_(options.accumulate), shared_(false) {
    check(lengths, options);
    if (owner.size() != lengths.size())
        fail("{} samples, but owners of {}", lengths.size(), owner.size());
    std::vector<Indices> samples(static_cast<std::size_t>(world_));
    for (std::size_t i = 0; i < owner.size(); ++i) {
        if (owner[i] < 0 || owner[i] >= world_)
            fail("sample {} belongs to rank {} of {}", i, owner[i], world_);
        samples[static_cast<std::size_t>(owner[i])].push_back(static_cast<std::int64_t>(i));
    }
    for (std::size_t rank = 0; rank < samples.size(); ++rank)
        of_rank_.push_back(batches_of(std::move(samples[rank]), lengths, options,
                                      key_of(options.seed, epoch, rank)));
    fill_ratio_ = ratio_of(of_rank_, lengths);
}

std::int64_t EpochPlan::updates() const {
    std::size_t most = 0;
    for (const std::vector<Indices>& batches : of_rank_) most = std::max(most, batches.size());
    const std::int64_t per_update = shared_ ? std::int64_t{accumulate_} * world_ : accumulate_;
    return (static_cast<std::int64_t>(most) + per_update - 1) / per_update;
}

std::int64_t EpochPlan::number(std::int64_t update, int rank, int micro) const {
    return (update * accumulate_ + micro) * world_ + rank;
}

std::span<const std::int64_t> EpochPlan::batch(std::int64_t update, int rank, int micro) const {
    const std::vector<Indices>& batches = of_rank_[shared_ ? 0 : static_cast<std::size_t>(rank)];
    const auto index = static_cast<std::size_t>(shared_ ? number(update, rank, micro)
                                                        : update * accumulate_ + micro);
    if (index >= batches.size()) return {};
    return batches[index];
}

}  // namespace alg
