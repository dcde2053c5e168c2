// SPDX-License-Identifier: Apache-2.0
// From hyperparameters to the parts of a training.
#pragma once

#include "common/training/distributed.h"
#include "common/training/schedule.h"
#include "common/training/state.h"
#include "masked-lm/feed.h"
#include "masked-lm/model.h"

namespace alg {

Precision precision_of(const Options& options, torch::Device device);

FeedOptions feed_options(const Options& options, const EncoderConfig& config,
                         const std::optional<Vocabulary>& vocabulary, const Place& place);
Schedule schedule_of(const Options& options, const EncoderConfig& config);
/// A collective call over `group`.
std::vector<std::vector<std::int32_t>> gather_lengths(Group& group,
                                                      const std::vector<std::int32_t>& own);

/// Where a feed goes on from a saved position; and the reverse.
FeedPlace feed_place(const Position& position, const Place& place, const Options& options,
                     bool sharded);
void note(Position& position, const FeedPlace& place);

}  // namespace alg
