// SPDX-License-Identifier: Apache-2.0
// masked-lm: pre-training of ERNIE 1.0 on the article's files. See README.md.
#include "common/base/log.h"
#include "common/training/machine.h"
#include "common/training/signals.h"
#include "masked-lm/dump.h"
#include "masked-lm/journal.h"
#include "masked-lm/output.h"
#include "masked-lm/setup.h"
#include "masked-lm/validation.h"

#include "common/base/random.h"
#include "masked-lm/purposes.h"

using namespace alg;

namespace {

constexpr std::chrono::minutes kPatience{30};  // with peers that are silent

/// Everything a training is made of, in order of construction.
class Training {
public:
    Training(const Options& options, const Contract& contract, torch::Device device,
             std::map<std::string, std::string> values);
    int run();

private:
    std::uint64_t seed() const { return static_cast<std::uint64_t>(options_.random_seed); }
    bool leads() const { return place_.rank == 0; }
    bool due(std::int64_t every) const { return position_.update % every == 0; }
    FeedPlace resume();
    UpdateResult learn(const FeedStep& step);
    void count(const FeedStep& step, const UpdateResult& result);
    void report(const FeedStep& step, const Feed& feed, Journal& journal);
    void validate();
    void keep();
    bool told_to_stop() const;
    void finish();

    const Options& options_;
    const Contract& contract_;
    const std::map<std::string, std::string> values_;
    const Place& place_;
    const torch::Device device_;
    const Precision precision_;
    const Inputs inputs_;
    const std::optional<Vocabulary> vocabulary_;
    const std::vector<ListedFile> files_;
    MaskedLm model_;
    const std::unique_ptr<Group> group_;
    const FeedOptions feeding_;
    std::unique_ptr<Optimizer> optimizer_;
    std::optional<Updater> updater_;
    std::optional<StateKeeper> keeper_;
    WeightSnapshots snapshots_{model_};
    std::optional<Validator> validator_;
    Position position_;
    std::int64_t epoch_ = 0;  ///< of the last update
    // Since the last report, on this rank: real tokens, right answers, samples.
    double tokens_ = 0, correct_ = 0, samples_ = 0;
    std::int64_t bad_in_a_row_ = 0, validated_ = -1;
};

std::optional<Vocabulary> vocabulary_of(const Inputs& inputs) {
    if (inputs.vocabulary.empty()) return std::nullopt;
    return Vocabulary::read(inputs.vocabulary);
}

Training::Training(const Options& options, const Contract& contract, torch::Device device,
                   std::map<std::string, std::string> values)
    : options_(options),
      contract_(contract),
      values_(std::move(values)),
      place_(contract.place),
      device_(device),
      precision_(precision_of(options, device)),
      inputs_(find_inputs(options, contract)),
      vocabulary_(vocabulary_of(inputs_)),
      files_(read_filelist(inputs_.train_list, inputs_.train)),
      model_(shape_of(options, inputs_, vocabulary_), options.weight_sharing, seed()),
      group_(make_group(place_, device, kPatience)),
      feeding_(feed_options(options, model_.config(), vocabulary_, place_)) {
    if (!inputs_.start.empty()) start_from(model_, inputs_.start);
    move_to(model_, device_);
    optimizer_ = make_adamw(model_.parameters(), {.weight_decay = options_.weight_decay});
    updater_.emplace(model_.parameters(), *optimizer_, schedule_of(options_, model_.config()),
                     *group_,
                     UpdateOptions{.clip_norm = options_.clip_norm, .precision = precision_});
    if (!inputs_.valid_list.empty())
        validator_.emplace(read_filelist(inputs_.valid_list, inputs_.valid), feeding_,
                           options_.validation_batches);
    if (leads())
        say("{} parameters, {} files, {} processes", model_.parameter_count(), files_.size(),
            place_.world);
}

/// Where the feed begins: at the newest state's position, else at the beginning.
FeedPlace Training::resume() {
    FeedPlace from;
    const bool sharded = files_are_sharded(files_.size(), place_.world);
    if (contract_.has_checkpoints) {
        keeper_.emplace(StateOptions{.folder = contract_.checkpoints,
                                     .every_updates = options_.save_steps,
                                     .every_seconds = options_.save_seconds,
                                     .keep = static_cast<int>(options_.keep_checkpoints),
                                     .writer = leads(),
                                     .must_match = {{"program", "masked-lm"}}},
                        model_.parameters(), *optimizer_);
        if (const auto found = keeper_->resume(*group_)) {
            position_ = *found;
            from = feed_place(position_, place_, options_, sharded);
            updater_->restore(position_.update, position_.skipped, position_.loss_scale);
            bad_in_a_row_ = static_cast<std::int64_t>(position_.numbers["bad_in_a_row"]);
            if (leads()) say("goes on after step {}", position_.update);
        }
    }
    position_.world = place_.world;
    position_.accumulate = static_cast<int>(options_.accumulate);
    position_.seed = seed();
    position_.texts["program"] = "masked-lm";
    position_.numbers["sharded"] = sharded ? 1 : 0;
    epoch_ = from.epoch;
    return from;
}

/// One update over this rank's micro-batches.
UpdateResult Training::learn(const FeedStep& step) {
    std::vector<std::vector<double>> counts;
    for (const Batch& batch : step.micros)
        counts.push_back(
            {static_cast<double>(batch.samples()), static_cast<double>(batch.selected.size())});
    updater_->begin(counts);
    for (const Batch& batch : step.micros) {
        Pass pass{.training = true,
                  .key = key_of(seed(), step.epoch, Purpose::dropout, step.round, batch.number)};
        Losses losses;
        {
            const AutocastScope autocast(precision_, device_);
            losses = model_.losses(batch, device_, pass);
        }
        updater_->backward({{losses.follows}, {losses.words}});
        tokens_ += static_cast<double>(batch.tokens.size());
        samples_ += static_cast<double>(batch.samples());
        correct_ += static_cast<double>(losses.follows_correct);
    }
    return updater_->finish([this] {
        if (keeper_) keeper_->before_step();
        snapshots_.before_step();
    });
}

/// The position after an update; gives up when none of the last ones was any good.
void Training::count(const FeedStep& step, const UpdateResult& result) {
    epoch_ = step.epoch;
    ++position_.update;
    for (const Batch& batch : step.micros) position_.samples += batch.samples();
    position_.skipped = updater_->skipped();
    position_.loss_scale = updater_->scale().save();
    note(position_, step.next);
    bad_in_a_row_ = result.skipped ? bad_in_a_row_ + 1 : 0;
    position_.numbers["bad_in_a_row"] = static_cast<double>(bad_in_a_row_);
    if (bad_in_a_row_ >= options_.max_bad_steps)
        fail(
            "loss or gradient was not finite in {} updates in a row (up to step {}); lower "
            "learning_rate {:g}, lengthen the warm-up, or use precision fp32",
            bad_in_a_row_, position_.update, options_.learning_rate);
}

void Training::report(const FeedStep& step, const Feed& feed, Journal& journal) {
    double numbers[] = {tokens_, correct_, samples_};
    tokens_ = correct_ = samples_ = 0;
    group_->sum(numbers);
    if (!leads()) return;
    const Batch& batch = step.micros[0];
    journal.report({.epoch = step.epoch + 1,
                    .step = position_.update,
                    .file_place = batch.place,
                    .files = static_cast<int>(files_.size()),
                    .file = files_[static_cast<std::size_t>(batch.file)].listed,
                    .mask_type = batch.mask_by == MaskBy::word ? "mask_word" : "mask_char",
                    .queue = feed.ready()},
                   numbers[0], numbers[1], numbers[2]);
}

void Training::validate() {
    if (!validator_ || validated_ == position_.update) return;
    validated_ = position_.update;
    const Journal::Validation result = validator_->run(model_, device_, precision_, *group_);
    if (leads()) Journal::report({.epoch = epoch_ + 1, .step = position_.update}, result);
}

/// State and weights that are due, both written beside the training.
void Training::keep() {
    if (keeper_) keeper_->after_update(position_);
    if (!leads() || options_.checkpoints.empty() || !due(options_.save_steps)) return;
    const fs::path folder = fs::path(options_.checkpoints) / format("step_{}", position_.update);
    snapshots_.start(folder / "ernie.pt", position_.update);
}

bool Training::told_to_stop() const {
    // All ranks leave after the same update.
    return place_.world > 1 ? group_->max(stop_requested() ? 1 : 0) > 0 : stop_requested();
}

void Training::finish() {
    validate();
    if (keeper_) keeper_->save_now(position_);
    snapshots_.finish();
    if (leads()) {
        if (position_.skipped > 0) warn("{} updates were skipped in all", position_.skipped);
        write_model(contract_.model, model_, vocabulary_, values_, position_.update,
                    options_.export_int8);
    }
    group_->barrier();
}

int Training::run() {
    Feed feed(files_, feeding_, resume(), [this](const std::vector<std::int32_t>& own) {
        return gather_lengths(*group_, own);
    });
    Journal journal(position_.update, options_.num_train_steps);
    std::optional<Dump> dump;
    if (!options_.dump.empty()) dump.emplace(options_.dump, model_.parameters());

    while (position_.update < options_.num_train_steps) {
        const auto step = feed.next();
        if (!step) break;  // all epochs are done
        const UpdateResult result = learn(*step);
        count(*step, result);
        journal.add({result.means[0], result.means[1], result.rate, result.skipped});
        if (due(options_.skip_steps)) report(*step, feed, journal);
        keep();
        if (due(options_.validation_steps)) validate();
        if (dump) {
            dump->add(step->micros, result.rate, result.means[0], result.means[1]);
            if (dump->updates() >= options_.dump_updates) break;
        }
        if (told_to_stop()) {
            if (keeper_) keeper_->save_now(position_);
            if (leads()) say("stopped after step {} as told", position_.update);
            return 143;
        }
    }
    if (dump) dump->write();
    finish();
    return 0;
}

int body(int argc, const char* const* argv) {
    Options options;
    Hyperparameters declared = declare(options);
    if (answer_help(argc, argv, declared)) return 0;
    watch_signals();
    const Contract contract =
        read_contract(argc, argv, {"train", "valid"}, declared.names(), config_folder());
    declared.read(contract.hyperparameters);
    const std::map<std::string, std::string> values = declared.values();
    if (contract.place.rank == 0)
        for (const auto& [name, value] : values) say("{}: {}", name, value);
    const Machine machine = prepare_machine(contract.place, options.use_cuda ? "auto" : "cpu");
    Training training(options, contract, machine.device, values);
    return training.run();
}

}  // namespace

int main(int argc, char** argv) {
    return run_program(argc, argv, body);
}
