// SPDX-License-Identifier: Apache-2.0
// One optimiser update over all micro-batches of all ranks, exactly as if they were one batch.
#pragma once

#include "common/training/distributed.h"
#include "common/training/optimizer.h"
#include "common/training/precision.h"
#include "common/training/schedule.h"

#include <functional>
#include <span>

namespace alg {

/// A part of the loss as its sum over this micro-batch and the number it is to be divided by
/// (masked tokens, sentences). Divided by the number over all micro-batches of all ranks: the mean
/// is exact whatever the sizes, and an empty micro-batch counts nothing.
struct LossTerm {
    torch::Tensor sum;  ///< scalar; undefined when the micro-batch has none of it
    double weight = 1;
};

struct UpdateOptions {
    double clip_norm = 0;  ///< 0: no clipping
    Precision precision = Precision::float32;
};

struct UpdateResult {
    bool skipped = false;       ///< gradient or loss not finite: parameters untouched
    double rate = 0, norm = 0;  ///< learning rate used; norm before clipping
    std::vector<double> means;  ///< of each term, over all ranks and micro-batches
    double loss = 0;            ///< sum of weight * mean
};

/// Per update: begin(counts), backward(terms) once per micro-batch, finish().
class Updater {
public:
    Updater(std::vector<Parameter> parameters, Optimizer& optimizer, Schedule schedule,
            Group& group, UpdateOptions options);
    /// counts[m][t]: number term t of this rank's micro-batch m is to be divided by.
    void begin(std::span<const std::vector<double>> counts);
    void backward(const std::vector<LossTerm>& terms);
    /// `before_step` is called when parameters are about to change (a checkpoint being copied must
    /// be complete).
    UpdateResult finish(const std::function<void()>& before_step = {});

    std::int64_t updates() const { return updates_; }  ///< attempted ones; the schedule's clock
    std::int64_t skipped() const { return skipped_; }
    void restore(std::int64_t updates, std::int64_t skipped, const std::vector<double>& scale);
    LossScale& scale() { return scale_; }
    GradientBuckets& buckets() { return buckets_; }

private:
    void add(std::size_t index, const torch::Tensor& value);
    std::vector<double> summed();

    std::vector<Parameter> parameters_;
    Optimizer& optimizer_;
    Schedule schedule_;
    Group& group_;
    UpdateOptions options_;
    LossScale scale_;
    GradientBuckets buckets_;
    std::int64_t updates_ = 0, skipped_ = 0;
    std::size_t micro_ = 0, micros_ = 0;
    torch::Tensor totals_;  ///< of each term: what its sum is divided by
    std::unique_ptr<Group::Pending> totals_coming_;
    std::vector<torch::Tensor> sums_;  ///< of each term, and last the loss; this rank's
};

}  // namespace alg
