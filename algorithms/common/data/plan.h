// SPDX-License-Identifier: Apache-2.0
// Which samples form which batch, for a whole epoch and every rank, computed before it starts from
// the samples' lengths alone. Hence the number of updates is known, equal on every rank, and
// training can resume exactly at update k. Pure; the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace alg {

using Indices = std::vector<std::int64_t>;

// Decorators over a stream of sample numbers, in the order they are usually stacked.

/// A shuffle through a window of `buffer` samples; 0: a perfect shuffle of all.
Indices shuffled(Indices samples, std::int64_t buffer, std::uint64_t key);
/// Sorts by length within consecutive pools of `pool` samples (longest first); ties keep their
/// order. 0: leaves the order; -1: one pool.
Indices sorted_in_pools(Indices samples, std::span<const std::int32_t> lengths, std::int64_t pool);

/// What fills a batch.
enum class Fill {
    samples,        ///< `size` samples
    padded_tokens,  ///< (count + 1) * longest <= size: the original's in_tokens
    tokens,         ///< sum of lengths <= size: nothing is padded
};
/// Cuts a stream into batches, in order. A sample longer than `size` forms a batch of its own.
/// `drop_last` leaves out a last batch that is not full; counted in tokens, the last one in any
/// case.
std::vector<Indices> batched(const Indices& samples, std::span<const std::int32_t> lengths,
                             Fill fill, std::int64_t size, bool drop_last);
/// Groups samples whose lengths fall into the same bucket (upper bounds, ascending; longer ones:
/// the last), then cuts each bucket with `fill`. Batches come in the order in which they were full,
/// what remains in the buckets at the end.
std::vector<Indices> bucketed(const Indices& samples, std::span<const std::int32_t> lengths,
                              std::span<const std::int32_t> bounds, Fill fill, std::int64_t size,
                              bool drop_last = false);

struct PlanOptions {
    std::uint64_t seed = 1;
    bool shuffle = true;
    std::int64_t shuffle_buffer = 0;    ///< samples; 0: all
    std::int64_t sort_pool = 0;         ///< samples; 0: no sorting, -1: all
    std::vector<std::int32_t> buckets;  ///< non-empty: bucketed instead of sort_pool
    Fill fill = Fill::samples;
    std::int64_t size = 32;
    bool drop_last = false;
    int world = 1;
    int accumulate = 1;  ///< micro-batches per rank and update
};

/// The batches of one epoch. With shuffle, sorted and bucketed batches come in random order
/// (sorting alone would train short samples together in time). Throws Failure for options that make
/// no sense.
class EpochPlan {
public:
    /// All samples are shared by all ranks: micro-batch m of update u on rank r is batch
    /// (u * accumulate + m) * world + r, so a world of two and one with accumulate two see the
    /// same.
    EpochPlan(std::span<const std::int32_t> lengths, const PlanOptions& options,
              std::int64_t epoch);
    /// Each rank has samples of its own (files sharded by index): `owner[i]` is sample i's rank.
    /// Ranks that run out get empty batches until the last is done: nothing is dropped or repeated.
    EpochPlan(std::span<const std::int32_t> lengths, std::span<const std::int32_t> owner,
              const PlanOptions& options, std::int64_t epoch);

    std::int64_t updates() const;
    /// May be empty at the end of an epoch.
    std::span<const std::int64_t> batch(std::int64_t update, int rank, int micro) const;
    /// Number of a micro-batch within the epoch over all ranks; keys its dropout.
    std::int64_t number(std::int64_t update, int rank, int micro) const;
    /// Real tokens over padded tokens, were each batch padded to its longest sample.
    double fill_ratio() const { return fill_ratio_; }

private:
    std::vector<std::vector<Indices>>
        of_rank_;  ///< one list per rank; one shared list when owner is absent
    int world_, accumulate_;
    bool shared_;
    double fill_ratio_ = 1;
};

}  // namespace alg
