// SPDX-License-Identifier: Apache-2.0
// The stream of updates' batches over all epochs: files are read, planned and masked ahead of the
// training, on threads of their own. Two rounds of files are in memory at most.
#pragma once

#include "common/data/plan.h"
#include "common/data/prefetch.h"
#include "masked-lm/round.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace alg {

struct FeedOptions {
    PlanOptions plan;  ///< seed, shuffle, world, accumulate, what fills a batch
    int rank = 0;
    std::int64_t epochs = 1;
    SampleLimits limits;
    MaskRules rules;
    bool false_pairs = false;
    std::uintmax_t round_bytes = std::uintmax_t{4} << 20;  ///< see RoundOptions
    int ahead = 8;                                         ///< batches made ahead
};

/// Where the stream stands; a stream made with it goes on from there.
struct FeedPlace {
    std::int64_t epoch = 0, update_in_epoch = 0, round = 0, update_in_round = 0;
};

/// What one update learns from on this rank.
struct FeedStep {
    std::vector<Batch> micros;  ///< `accumulate` of them; some may be empty
    std::int64_t epoch = 0, round = 0;
    FeedPlace next;  ///< where to go on after it
};

/// Lengths of every rank's samples, in order of ranks, from this rank's. A collective call.
using GatherLengths =
    std::function<std::vector<std::vector<std::int32_t>>(const std::vector<std::int32_t>&)>;

class Feed {
public:
    /// `gather` is needed when files are sharded over ranks. It is called in next().
    Feed(std::vector<ListedFile> files, FeedOptions options, FeedPlace start,
         GatherLengths gather = {});
    ~Feed();

    /// Nothing after the last epoch. Throws Failure for files that cannot be used.
    std::optional<FeedStep> next();

    const std::vector<ListedFile>& files() const { return files_; }
    /// Batches ready to be taken.
    int ready() const { return ready_.load(); }
    /// Real tokens over padded tokens of the round, were batches padded.
    double fill_ratio() const { return plan_ ? plan_->fill_ratio() : 1; }
    std::int64_t updates_in_round() const { return plan_ ? plan_->updates() : 0; }
    std::int64_t samples_in_round() const;

private:
    struct Loaded {
        std::shared_ptr<const Round> round;  ///< null: there are no more epochs
        std::int64_t number = 0;
        bool last = false;  ///< of its epoch
    };
    class Loader;
    bool next_round();

    const std::vector<ListedFile> files_;
    const FeedOptions options_;
    const GatherLengths gather_;
    FeedPlace place_;
    Loaded loaded_;
    std::optional<EpochPlan> plan_;
    std::int64_t first_ = 0;  ///< number, in the plan, of this rank's first sample
    std::atomic<int> ready_{0};
    std::unique_ptr<Loader> loader_;
    std::unique_ptr<Prefetch<Loaded>> rounds_;
    std::unique_ptr<Prefetch<Batch>> batches_;
};

}  // namespace alg
