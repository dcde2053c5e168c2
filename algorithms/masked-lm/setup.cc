// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/setup.h"

#include "common/base/log.h"

#include <ATen/ATen.h>

#include <numeric>

namespace alg {

Precision precision_of(const Options& options, torch::Device device) {
    if (!options.use_fp16) return parse_precision(options.precision);
    if (device.is_cuda()) return Precision::float16;
    say("use_fp16: a processor computes with bf16 instead");
    return Precision::bfloat16;
}

FeedOptions feed_options(const Options& options, const EncoderConfig& config,
                         const std::optional<Vocabulary>& vocabulary, const Place& place) {
    const Fill fill = !options.in_tokens         ? Fill::samples
                      : options.fill == "tokens" ? Fill::tokens
                                                 : Fill::padded_tokens;
    FeedOptions feed{.plan = {.seed = static_cast<std::uint64_t>(options.random_seed),
                              .sort_pool = options.sort_pool,
                              .fill = fill,
                              .size = options.batch_size,
                              .world = place.world,
                              .accumulate = static_cast<int>(options.accumulate)},
                     .rank = place.rank,
                     .epochs = options.epoch,
                     .limits = {.vocabulary = config.vocabulary,
                                .types = config.types,
                                .positions = config.positions,
                                .longest = options.max_seq_len},
                     .false_pairs = options.generate_neg_sample,
                     .round_bytes = static_cast<std::uintmax_t>(options.round_mib) << 20};
    feed.rules.vocabulary = config.vocabulary;
    if (vocabulary) {
        feed.rules.vocabulary = std::min<std::int64_t>(config.vocabulary, vocabulary->size());
        const auto special = [&](const char* token, std::int64_t& id) {
            if (const std::int32_t found = vocabulary->id(token); found >= 0) id = found;
        };
        special("[CLS]", feed.rules.cls);
        special("[SEP]", feed.rules.sep);
        special("[MASK]", feed.rules.mask);
    }
    return feed;
}

Schedule schedule_of(const Options& options, const EncoderConfig& config) {
    if (options.lr_scheduler == "noam_decay")
        return noam(options.learning_rate, config.hidden,
                    std::max<std::int64_t>(options.warmup(), 1));
    return linear_warmup_decay(options.learning_rate, options.warmup(), options.num_train_steps);
}

std::vector<std::vector<std::int32_t>> gather_lengths(Group& group,
                                                      const std::vector<std::int32_t>& own) {
    std::vector<double> counts(static_cast<std::size_t>(group.world()));
    counts[static_cast<std::size_t>(group.rank())] = static_cast<double>(own.size());
    group.sum(counts);
    const auto total =
        static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), 0.0));
    torch::Tensor all = at::zeros({total}, at::kInt);
    std::int64_t at = 0;
    for (int rank = 0; rank < group.rank(); ++rank)
        at += static_cast<std::int64_t>(counts[static_cast<std::size_t>(rank)]);
    std::copy(own.begin(), own.end(), all.data_ptr<std::int32_t>() + at);
    group.sum(all);
    std::vector<std::vector<std::int32_t>> result;
    const std::int32_t* from = all.data_ptr<std::int32_t>();
    for (const double count : counts) {
        result.emplace_back(from, from + static_cast<std::int64_t>(count));
        from += static_cast<std::int64_t>(count);
    }
    return result;
}

FeedPlace feed_place(const Position& position, const Place& place, const Options& options,
                     bool sharded) {
    const auto number = [&](const char* name) {
        const auto found = position.numbers.find(name);
        return found == position.numbers.end() ? 0 : static_cast<std::int64_t>(found->second);
    };
    FeedPlace from{position.epoch, position.update_in_epoch, number("round"),
                   number("update_in_round")};
    const std::int64_t before = std::int64_t{position.world} * position.accumulate;
    const std::int64_t now = std::int64_t{place.world} * options.accumulate;
    const bool was_sharded = number("sharded") != 0;
    if (before == now && was_sharded == sharded && (!sharded || position.world == place.world))
        return from;
    if (was_sharded || sharded) {
        warn("the state is of {} processes, now there are {}: epoch {} begins anew", position.world,
             place.world, position.epoch + 1);
        return {.epoch = position.epoch};
    }
    // The same batches, dealt otherwise: go on where no batch is left out.
    from.update_in_round = from.update_in_round * before / now;
    from.update_in_epoch = from.update_in_epoch * before / now;
    return from;
}

void note(Position& position, const FeedPlace& place) {
    position.epoch = place.epoch;
    position.update_in_epoch = place.update_in_epoch;
    position.numbers["round"] = static_cast<double>(place.round);
    position.numbers["update_in_round"] = static_cast<double>(place.update_in_round);
}

}  // namespace alg
