// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/feed.h"

#include "common/base/error.h"
#include "common/base/random.h"
#include "masked-lm/purposes.h"

#include <limits>
#include <map>
#include <set>

namespace alg {

/// Reads rounds one after the other, on the one thread of `rounds_`.
class Feed::Loader {
public:
    Loader(const std::vector<ListedFile>& files, const FeedOptions& options, const FeedPlace& start)
        : files_(files), options_(options), epoch_(start.epoch), next_(start.round) {}

    Loaded load() {
        if (rounds_.empty()) rounds_ = rounds_of(files_, round_options(), epoch_);
        if (static_cast<std::size_t>(next_) >= rounds_.size()) {
            ++epoch_;
            next_ = 0;
            rounds_ = rounds_of(files_, round_options(), epoch_);
        }
        if (epoch_ >= options_.epochs) return {};
        const FileRound& chosen = rounds_[static_cast<std::size_t>(next_)];
        const auto seed = options_.plan.seed;
        std::vector<RoundPart> parts;
        std::map<int, std::shared_ptr<const Shard>> held;
        const bool sharded = files_are_sharded(files_.size(), options_.plan.world);
        for (std::size_t i = 0; i < chosen.files.size(); ++i) {
            if (sharded && chosen.rank[i] != options_.rank) continue;
            const int file = chosen.files[i];
            held[file] = shard_of(file);
            parts.push_back(
                {held[file], file, chosen.place[i],
                 mask_by_of(files_[static_cast<std::size_t>(file)], file, seed, epoch_)});
        }
        held_ = std::move(held);
        auto round = std::make_shared<Round>(std::move(parts), seed, epoch_);
        if (options_.false_pairs)
            round->add_false_pairs(files_, options_.limits.longest, options_.rules.sep);
        Loaded loaded{std::move(round), next_,
                      static_cast<std::size_t>(next_) + 1 == rounds_.size()};
        ++next_;
        return loaded;
    }

private:
    RoundOptions round_options() const {
        return {.seed = options_.plan.seed,
                .shuffle = options_.plan.shuffle,
                .world = options_.plan.world,
                .bytes = options_.round_bytes};
    }
    /// From the round before, where it has it: small corpora are read once.
    std::shared_ptr<const Shard> shard_of(int file) {
        if (const auto found = held_.find(file); found != held_.end()) return found->second;
        SkipLog again(0);
        const bool first = seen_.insert(file).second;
        const long before = skips_.total();
        auto shard = std::make_shared<const Shard>(read_shard(
            files_[static_cast<std::size_t>(file)].path, options_.limits, first ? skips_ : again));
        if (first) {
            samples_ += shard->size();
            if (skips_.total() > before) skips_.summarise(samples_ + skips_.total(), "lines");
        }
        return shard;
    }

    const std::vector<ListedFile>& files_;
    const FeedOptions& options_;
    std::int64_t epoch_, next_;
    std::vector<FileRound> rounds_;
    std::map<int, std::shared_ptr<const Shard>> held_;
    std::set<int> seen_;  ///< files whose bad lines were reported
    SkipLog skips_;
    long samples_ = 0;
};

Feed::Feed(std::vector<ListedFile> files, FeedOptions options, FeedPlace start,
           GatherLengths gather)
    : files_(std::move(files)),
      options_(std::move(options)),
      gather_(std::move(gather)),
      place_(start),
      loader_(std::make_unique<Loader>(files_, options_, start)) {
    rounds_ = std::make_unique<Prefetch<Loaded>>(
        0, std::numeric_limits<std::int64_t>::max() / 2, 1, 1,
        [loader = loader_.get()](std::int64_t) { return loader->load(); });
}

Feed::~Feed() = default;

std::int64_t Feed::samples_in_round() const {
    return loaded_.round ? static_cast<std::int64_t>(loaded_.round->lengths().size()) : 0;
}

bool Feed::next_round() {
    batches_.reset();  // its threads use the round
    ready_ = 0;
    loaded_ = *rounds_->next();
    if (!loaded_.round) return false;
    const Round& round = *loaded_.round;
    if (round.epoch() != place_.epoch) place_ = {.epoch = round.epoch()};
    if (place_.round != loaded_.number) place_.update_in_round = 0;
    place_.round = loaded_.number;
    PlanOptions plan = options_.plan;
    plan.seed = key_of(plan.seed, Purpose::plan, loaded_.number);
    first_ = 0;
    if (files_are_sharded(files_.size(), plan.world)) {
        std::vector<std::int32_t> lengths, owner;
        const auto all = gather_(round.lengths());
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            if (static_cast<int>(rank) == options_.rank)
                first_ = static_cast<std::int64_t>(lengths.size());
            lengths.insert(lengths.end(), all[rank].begin(), all[rank].end());
            owner.resize(lengths.size(), static_cast<std::int32_t>(rank));
        }
        plan_.emplace(lengths, owner, plan, place_.epoch);
    } else {
        plan_.emplace(round.lengths(), plan, place_.epoch);
    }
    const int micros = plan.accumulate;
    batches_ = std::make_unique<Prefetch<Batch>>(
        place_.update_in_round * micros, plan_->updates() * micros, 1, options_.ahead,
        [this, micros](std::int64_t number) {
            const std::int64_t update = number / micros;
            const int micro = static_cast<int>(number % micros);
            const auto planned = plan_->batch(update, options_.rank, micro);
            std::vector<std::int64_t> samples(planned.begin(), planned.end());
            for (std::int64_t& sample : samples) sample -= first_;
            Batch batch = loaded_.round->batch(samples, options_.rules);
            batch.number = plan_->number(update, options_.rank, micro);
            ++ready_;
            return batch;
        });
    return true;
}

std::optional<FeedStep> Feed::next() {
    FeedStep step;
    while (true) {
        std::optional<Batch> batch;
        if (batches_) batch = batches_->next();
        if (!batch) {
            if (batches_ && loaded_.last)
                place_ = {.epoch = place_.epoch + 1};
            else if (batches_)
                place_ = {place_.epoch, place_.update_in_epoch, place_.round + 1, 0};
            if (!next_round()) return std::nullopt;
            continue;
        }
        --ready_;
        step.micros.push_back(std::move(*batch));
        for (int micro = 1; micro < options_.plan.accumulate; ++micro) {
            step.micros.push_back(std::move(*batches_->next()));
            --ready_;
        }
        break;
    }
    step.epoch = place_.epoch;
    step.round = place_.round;
    ++place_.update_in_epoch;
    ++place_.update_in_round;
    step.next = place_;
    return step;
}

}  // namespace alg
