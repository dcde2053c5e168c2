// SPDX-License-Identifier: Apache-2.0
// text-classification: BERT that tells classes of texts. See README.md.
#include "common/base/log.h"
#include "common/base/meter.h"
#include "common/base/random.h"
#include "common/data/plan.h"
#include "common/data/prefetch.h"
#include "common/files/atomic_file.h"
#include "common/files/unpack.h"
#include "common/training/machine.h"
#include "common/training/signals.h"
#include "common/training/state.h"
#include "common/training/updater.h"
#include "text-classification/evaluate.h"
#include "text-classification/output.h"

#include <nlohmann/json.hpp>

#include <cmath>

using namespace alg;

namespace {

constexpr std::chrono::minutes kPatience{30};  // with peers that are silent
constexpr int kAhead = 4;                      // updates whose batches are made while others train

using Micros = std::vector<Batch>;

/// Everything a training is made of, in order of construction.
class Training {
public:
    Training(const Options& options, const Contract& contract, const Machine& machine,
             const Inputs& inputs, const fs::path& start,
             std::map<std::string, std::string> values);
    int run();

private:
    std::uint64_t seed() const { return static_cast<std::uint64_t>(options_.seed); }
    bool leads() const { return place_.rank == 0; }
    std::int64_t updates_in_all() const;
    EpochPlan plan(std::int64_t epoch) const;
    void resume();
    UpdateResult learn(const Micros& micros);
    void count(const Micros& micros, const UpdateResult& result);
    void report(const UpdateResult& result);
    void validate();
    bool stops_early() const;
    bool told_to_stop();
    int epoch(const EpochPlan& plan);
    void finish();

    const Options& options_;
    const Contract& contract_;
    const std::map<std::string, std::string> values_;
    const Place& place_;
    const DataReader reader_;
    const Data& data_;
    const Device where_;
    Classifier model_;
    const std::unique_ptr<Group> group_;
    torch::Tensor class_weights_;  ///< undefined: all 1
    std::vector<float> weights_;
    std::int64_t total_ = 0;  ///< updates
    std::unique_ptr<Optimizer> optimizer_;
    std::optional<Updater> updater_;
    std::optional<StateKeeper> keeper_;
    Position position_;
    std::optional<Progress> progress_;
    nlohmann::json history_ = nlohmann::json::array();
    std::optional<Confusion> last_;  ///< validation
    // Since the last report.
    Mean loss_;
    Rate rate_;
    double last_loss_ = 0;
    std::int64_t bad_in_a_row_ = 0, validated_ = -1;
};

Schedule schedule_of(const Options& options, std::int64_t total) {
    const std::int64_t warmup =
        options.warmup_steps >= 0
            ? options.warmup_steps
            : std::max<std::int64_t>(
                  std::llround(options.warmup_ratio * static_cast<double>(total)),
                  options.warmup_ratio > 0 ? 1 : 0);
    if (options.lr_scheduler_type == "linear")
        return linear_schedule(options.learning_rate, warmup, total);
    return [rate = options.learning_rate, warmup](std::int64_t update) {
        return update < warmup ? rate * static_cast<double>(update) / static_cast<double>(warmup)
                               : rate;
    };
}

Training::Training(const Options& options, const Contract& contract, const Machine& machine,
                   const Inputs& inputs, const fs::path& start,
                   std::map<std::string, std::string> values)
    : options_(options),
      contract_(contract),
      values_(std::move(values)),
      place_(contract.place),
      reader_(options, inputs, start, leads()),
      data_(reader_.data()),
      where_{machine.device, parse_precision(options.precision)},
      model_(shape_of(options, start, reader_.tokenizer().vocabulary()),
             static_cast<std::int64_t>(data_.labels.size()), seed()),
      group_(make_group(place_, machine.device, kPatience)),
      weights_(class_weights(options.class_weights, data_)) {
    if (!start.empty()) start_from(model_, start, inputs.start.string(), leads());
    move_to(model_, where_.device);
    if (!weights_.empty())
        class_weights_ = torch::tensor(weights_, torch::kFloat).to(where_.device);
    total_ = updates_in_all();
    optimizer_ = make_adamw(model_.parameters(), {.weight_decay = options_.weight_decay});
    updater_.emplace(
        model_.parameters(), *optimizer_, schedule_of(options_, total_), *group_,
        UpdateOptions{.clip_norm = options_.max_grad_norm, .precision = where_.precision});
    if (leads())
        say("{} parameters, {} updates, {} processes", model_.parameter_count(), total_,
            place_.world);
}

EpochPlan Training::plan(std::int64_t epoch) const {
    return {data_.train.lengths,
            {.seed = key_of(seed(), Purpose::plan),
             .buckets = parse_buckets(options_.buckets),
             .fill = Fill::samples,
             .size = options_.batch_size,
             .world = place_.world,
             .accumulate = static_cast<int>(options_.accumulate)},
            epoch};
}

std::int64_t Training::updates_in_all() const {
    const std::int64_t all = options_.epochs * plan(0).updates();
    return options_.max_steps > 0 ? std::min(options_.max_steps, all) : all;
}

void Training::resume() {
    position_.texts["program"] = "text-classification";
    if (contract_.has_checkpoints) {
        keeper_.emplace(StateOptions{.folder = contract_.checkpoints,
                                     .every_updates = options_.save_steps,
                                     .every_seconds = options_.save_seconds,
                                     .keep = static_cast<int>(options_.keep_checkpoints),
                                     .writer = leads(),
                                     .must_match = {{"program", "text-classification"}}},
                        model_.parameters(), *optimizer_);
        if (const auto found = keeper_->resume(*group_)) {
            position_ = *found;
            if (position_.texts["data"] != data_.fingerprint)
                fail(
                    "the state in {} was saved with other training samples, vocabulary or seed; "
                    "empty that folder to begin anew",
                    contract_.checkpoints.string());
            // The same batches, dealt otherwise: go on where none is left out.
            position_.update_in_epoch = position_.update_in_epoch * position_.world *
                                        position_.accumulate / place_.world / options_.accumulate;
            updater_->restore(position_.update, position_.skipped, position_.loss_scale);
            bad_in_a_row_ = static_cast<std::int64_t>(position_.numbers["bad_in_a_row"]);
            if (leads()) say("goes on after step {}", position_.update);
        }
    }
    position_.texts["data"] = data_.fingerprint;
    position_.world = place_.world;
    position_.accumulate = static_cast<int>(options_.accumulate);
    position_.seed = seed();
    progress_.emplace(position_.update, total_);
}

/// One update over this process's micro-batches.
UpdateResult Training::learn(const Micros& micros) {
    std::vector<std::vector<double>> counts;
    for (const Batch& batch : micros) {
        double weight = 0;
        for (const std::int64_t label : batch.labels)
            weight += weights_.empty() ? 1 : weights_[static_cast<std::size_t>(label)];
        counts.push_back({weight});
    }
    updater_->begin(counts);
    for (const Batch& batch : micros) {
        LossTerm term;
        if (batch.samples() > 0) {
            Pass pass{.training = true,
                      .key = key_of(seed(), position_.epoch, Purpose::dropout, batch.number)};
            const AutocastScope autocast(where_.precision, where_.device);
            term.sum = cross_entropy_sum(model_.logits(batch, where_.device, pass),
                                         tensor_of(batch.labels, where_.device), class_weights_)
                           .sum;
        }
        updater_->backward({term});
    }
    return updater_->finish([this] {
        if (keeper_) keeper_->before_step();
    });
}

/// The position after an update; gives up when none of the last ones was any good.
void Training::count(const Micros& micros, const UpdateResult& result) {
    ++position_.update;
    ++position_.update_in_epoch;
    for (const Batch& batch : micros) position_.samples += batch.samples() * place_.world;
    position_.skipped = updater_->skipped();
    position_.loss_scale = updater_->scale().save();
    bad_in_a_row_ = result.skipped ? bad_in_a_row_ + 1 : 0;
    position_.numbers["bad_in_a_row"] = static_cast<double>(bad_in_a_row_);
    if (bad_in_a_row_ >= options_.max_bad_steps)
        fail(
            "loss or gradient was not finite in {} updates in a row (up to step {}); lower "
            "learning_rate {:g}, lengthen the warm-up, or use precision fp32",
            bad_in_a_row_, position_.update, options_.learning_rate);
    for (const Batch& batch : micros)
        rate_.add(static_cast<double>(batch.samples() * place_.world));
    last_loss_ = result.loss;
    if (!result.skipped) loss_.add(result.loss);
    progress_->at(position_.update);
}

void Training::report(const UpdateResult& result) {
    if (!leads()) return;
    say("step: {}, epoch: {}, loss: {:.4f}, learning rate: {:.3g}, {:.1f} samples/s, {}{}",
        position_.update, position_.epoch, loss_.value(), result.rate, rate_.take(),
        progress_->text(),
        position_.skipped > 0 ? format(", {} updates skipped", position_.skipped) : "");
    loss_.reset();
}

void Training::validate() {
    if (data_.valid.samples.empty() || validated_ == position_.update) return;
    validated_ = position_.update;
    last_ = evaluate(model_, data_.valid, data_.labels.size(), options_.eval_batch_size, where_,
                     *group_);
    const std::string& metric = options_.metric_for_best_model;
    const double value = metric == "loss" ? -last_->loss()
                         : metric == "f1" ? last_->f1()
                                          : last_->accuracy();
    const auto best = position_.numbers.find("best");
    if (best == position_.numbers.end() || value > best->second) {
        position_.numbers["best"] = value;
        position_.numbers["not_better"] = 0;
    } else {
        position_.numbers["not_better"] += 1;
    }
    rate_.take();  // validation is not training
    if (!leads()) return;
    say("epoch {} : Validation Accuracy -: {{'accuracy': {}}}", position_.epoch,
        python_number(last_->accuracy()));
    say("validation: loss {:.4f}, f1 {:.4f}, macro f1 {:.4f}, {} samples", last_->loss(),
        last_->f1(), last_->macro_f1(), last_->samples());
    nlohmann::json entry = to_json(*last_, data_.labels);
    entry["epoch"] = position_.epoch;
    entry["step"] = position_.update;
    history_.push_back(std::move(entry));
}

bool Training::stops_early() const {
    const auto found = position_.numbers.find("not_better");
    return options_.early_stopping_patience > 0 && found != position_.numbers.end() &&
           found->second >= static_cast<double>(options_.early_stopping_patience);
}

bool Training::told_to_stop() {
    // All ranks leave after the same update.
    return place_.world > 1 ? group_->max(stop_requested() ? 1 : 0) > 0 : stop_requested();
}

/// The rest of an epoch; 143 when training was told to stop.
int Training::epoch(const EpochPlan& plan) {
    Prefetch<Micros> feed(
        position_.update_in_epoch, plan.updates(), 1, kAhead, [&](std::int64_t update) {
            Micros micros;
            for (int m = 0; m < static_cast<int>(options_.accumulate); ++m)
                micros.push_back(make_batch(data_.train, plan.batch(update, place_.rank, m),
                                            plan.number(update, place_.rank, m)));
            return micros;
        });
    while (position_.update < total_ && !stops_early()) {
        const auto micros = feed.next();
        if (!micros) break;
        const UpdateResult result = learn(*micros);
        count(*micros, result);
        if (position_.update % options_.skip_steps == 0) report(result);
        if (options_.eval_steps > 0 && position_.update % options_.eval_steps == 0) validate();
        if (keeper_) keeper_->after_update(position_);
        if (told_to_stop()) {
            if (keeper_) keeper_->save_now(position_);
            if (leads()) say("stopped after step {} as told", position_.update);
            return 143;
        }
    }
    return 0;
}

void Training::finish() {
    nlohmann::json metrics = {{"steps", position_.update},
                              {"samples", position_.samples},
                              {"skipped_updates", position_.skipped},
                              {"labels", data_.labels},
                              {"validations", history_}};
    if (last_) metrics["validation"] = to_json(*last_, data_.labels);
    if (!data_.test.samples.empty()) {
        const Confusion test = evaluate(model_, data_.test, data_.labels.size(),
                                        options_.eval_batch_size, where_, *group_);
        metrics["test"] = to_json(test, data_.labels);
        if (leads())
            say("test: accuracy {:.4f}, f1 {:.4f}, macro f1 {:.4f}, loss {:.4f}, {} samples",
                test.accuracy(), test.f1(), test.macro_f1(), test.loss(), test.samples());
    }
    if (keeper_) keeper_->save_now(position_);
    if (leads()) {
        write_model(contract_.model, {.model = model_,
                                      .tokenizer = reader_.tokenizer(),
                                      .labels = data_.labels,
                                      .values = values_,
                                      .max_length = options_.max_length,
                                      .pairs = data_.pairs,
                                      .int8 = options_.export_int8});
        std::error_code error;  // from a shell there may be no place for it
        if (fs::is_directory(contract_.output, error) ||
            fs::is_directory(contract_.output.parent_path(), error))
            write_text_atomically(contract_.data / "metrics.json", metrics.dump(2) + "\n");
    }
    group_->barrier();
}

int Training::run() {
    resume();
    while (position_.epoch < options_.epochs && position_.update < total_ && !stops_early()) {
        const EpochPlan batches = plan(position_.epoch);
        if (const int code = epoch(batches); code != 0) return code;
        if (leads())
            say("Epoch {}, rank {}, Loss {:0.4f}", position_.epoch, place_.rank, last_loss_);
        validate();
        if (position_.update_in_epoch < batches.updates()) break;  // max_steps, or early
        ++position_.epoch;
        position_.update_in_epoch = 0;
    }
    if (validated_ != position_.update && !last_) validate();  // resumed after the last update
    finish();
    return 0;
}

int body(int argc, const char* const* argv) {
    Options options;
    Hyperparameters declared = declare(options);
    if (answer_help(argc, argv, declared)) return 0;
    watch_signals();
    const Contract contract =
        read_contract(argc, argv, channel_names(), declared.names(), config_folder());
    declared.read(contract.hyperparameters);
    const std::map<std::string, std::string> values = declared.values();
    if (contract.place.rank == 0)
        for (const auto& [name, value] : values) say("{}: {}", name, value);
    const Inputs inputs = find_inputs(options, contract);
    std::optional<TemporaryFolder> unpacked;
    std::error_code ignored;
    if (!inputs.start.empty() && !fs::is_directory(inputs.start, ignored))
        unpack_model(inputs.start, unpacked.emplace().path());
    const Machine machine = prepare_machine(contract.place, options.use_cuda ? "auto" : "cpu");
    Training training(options, contract, machine, inputs,
                      unpacked ? unpacked->path() : inputs.start, values);
    return training.run();
}

}  // namespace

int main(int argc, char** argv) {
    return run_program(argc, argv, body);
}
