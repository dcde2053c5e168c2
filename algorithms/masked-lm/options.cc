// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/options.h"

#include "common/base/error.h"
#include "masked-lm/filelist.h"

#include <algorithm>

namespace alg {

namespace {

constexpr const char* kScale =
    "the loss scale follows ERNIE's rule: 102400 at first, doubled after "
    "100 good steps, times 0.8 after 2 bad ones";

void declare_model(Hyperparameters& declared, Options& o) {
    declared.text(
        "ernie_config_path", &o.ernie_config_path,
        "the model's shape: JSON with ERNIE's or Hugging Face's names; as given, else its "
        "base name in the train channel, else ERNIE 1.0's own shape");
    const Range size{.at_least = 0, .at_most = 1 << 24};
    const std::string configured = "; 0: as configured";
    declared.integer("vocab_size", &o.vocab_size, size, "tokens the model knows" + configured);
    declared.integer("hidden_size", &o.hidden_size, size, "width" + configured);
    declared.integer("num_hidden_layers", &o.num_hidden_layers, size, "layers" + configured);
    declared.integer("num_attention_heads", &o.num_attention_heads, size,
                     "attention heads" + configured);
    declared.integer("intermediate_size", &o.intermediate_size, size,
                     "width inside the feed-forward part; 0: as configured, else 4 * hidden_size");
    declared.integer("max_position_embeddings", &o.max_position_embeddings, size,
                     "positions the model knows" + configured);
    declared.integer("type_vocab_size", &o.type_vocab_size, {.at_least = 0, .at_most = 64},
                     "sentence ids the model knows" + configured);
    declared.choice("hidden_act", &o.hidden_act, {"configured", "relu", "gelu"}, "activation");
    declared.number("dropout", &o.dropout, {.at_least = -1, .below = 1},
                    "both dropout probabilities; -1: as configured");
    declared.flag("weight_sharing", &o.weight_sharing,
                  "word embedding and output of the masked-word head share their weights");
    declared.text(
        "init_checkpoint", &o.init_checkpoint,
        "weights to start from: a file or folder, in the channel model or a path; without "
        "it the channel model itself, where there is one");
    declared.text("init_pretraining_params", &o.init_pretraining_params, "the same");
}

void declare_data(Hyperparameters& declared, Options& o) {
    declared.text(
        "train_filelist", &o.train_filelist,
        "list of the train channel's files, path<TAB>mask_word_prob; empty: train_filelist");
    declared.text("valid_filelist", &o.valid_filelist,
                  "list of the valid channel's files; empty: valid_filelist");
    declared.text(
        "vocab_path", &o.vocab_path,
        "vocabulary, token<TAB>id or one token a line; empty: vocab.txt of the train channel");
    declared.flag("in_tokens", &o.in_tokens, "batch_size counts tokens, else samples");
    declared.integer("batch_size", &o.batch_size, {.at_least = 1, .at_most = 1 << 24},
                     "of one trainer's micro-batch, see in_tokens and fill");
    declared.choice(
        "fill", &o.fill, {"padded_tokens", "tokens"},
        "what in_tokens counts: tokens of the padded batch, as the original does, or real "
        "ones. Padding is never computed");
    declared.integer("max_seq_len", &o.max_seq_len, {.at_least = 4, .at_most = 65536},
                     "longer samples are left out");
    declared.integer(
        "sort_pool", &o.sort_pool, {.at_least = -1},
        "samples sorted by length before batches are cut, which saves padding; 0: none, "
        "as the original");
    declared.integer("round_mib", &o.round_mib, {.at_least = 1, .at_most = 1 << 20},
                     "files are read together until they have so many MiB on disk per trainer");
    declared.flag("generate_neg_sample", &o.generate_neg_sample,
                  "makes a false sentence pair for every true one; the files have true ones only");
}

void declare_training(Hyperparameters& declared, Options& o) {
    declared.integer("epoch", &o.epoch, {.at_least = 1}, "passes over the data at most");
    declared.integer(
        "num_train_steps", &o.num_train_steps, {.at_least = 1},
        "updates at most, whatever the number of trainers; the learning rate reaches 0 here");
    declared.number("learning_rate", &o.learning_rate, {.above = 0}, "peak learning rate");
    declared.choice("lr_scheduler", &o.lr_scheduler, {"linear_warmup_decay", "noam_decay"},
                    "course of the learning rate");
    declared.integer(
        "warmup_steps", &o.warmup_steps, {.at_least = -1},
        "updates of warm-up; -1: the original's 5000, but at most a tenth of num_train_steps");
    declared.number("weight_decay", &o.weight_decay, {.at_least = 0},
                    "decoupled, for all but biases and layer norms");
    declared.number("clip_norm", &o.clip_norm, {.at_least = 0}, "of all gradients; 0: no clipping");
    declared.integer("accumulate", &o.accumulate, {.at_least = 1, .at_most = 65536},
                     "micro-batches of one update");
    declared.choice("precision", &o.precision, {"fp32", "bf16", "fp16"}, "autocast to this type");
    declared.flag("use_fp16", &o.use_fp16, "precision fp16; on a processor, which cannot, bf16");
    declared.flag("use_cuda", &o.use_cuda, "a GPU where there is one");
    declared.integer("random_seed", &o.random_seed, {.at_least = 0},
                     "everything random follows from it");
    declared.alias("seed", "random_seed");
    declared.integer(
        "max_bad_steps", &o.max_bad_steps, {.at_least = 1},
        "updates in a row whose loss or gradient is not finite before training gives up");
}

void declare_output(Hyperparameters& declared, Options& o) {
    declared.integer("skip_steps", &o.skip_steps, {.at_least = 1},
                     "updates between two lines of the log");
    declared.integer("validation_steps", &o.validation_steps, {.at_least = 1},
                     "updates between two validations");
    declared.integer("validation_batches", &o.validation_batches, {.at_least = 0},
                     "batches of a validation, the same ones every time; 0: all, as the original");
    declared.integer(
        "save_steps", &o.save_steps, {.at_least = 1},
        "updates between two checkpoints, and two sets of weights below `checkpoints`");
    declared.number("save_seconds", &o.save_seconds, {.at_least = 0},
                    "a checkpoint at least so often; 0: by save_steps alone");
    declared.integer("keep_checkpoints", &o.keep_checkpoints, {.at_least = 1},
                     "older ones are removed");
    declared.text("checkpoints", &o.checkpoints,
                  "folder for weights of every save_steps as step_<n>/ernie.pt; empty: none");
    declared.ignored("verbose", "there is one kind of log");
    declared.flag("export_int8", &o.export_int8, "writes model_int8.ts, too");
    declared.text("dump", &o.dump,
                  "writes first weights and batches to this file, for comparisons");
    declared.integer("dump_updates", &o.dump_updates, {.at_least = 0},
                     "updates in it; training ends there");
    declared.ignored("is_distributed", "the processes there are train together");
    declared.ignored("use_fast_executor", "there is one way of running");
    declared.ignored("num_iteration_per_drop_scope", "there are no scopes");
    declared.ignored("use_dynamic_loss_scaling", kScale);
    declared.ignored("init_loss_scaling", kScale);
    declared.ignored("loss_scaling", kScale);
    declared.ignored("incr_every_n_steps", kScale);
    declared.ignored("decr_every_n_nan_or_inf", kScale);
    declared.ignored("incr_ratio", kScale);
    declared.ignored("decr_ratio", kScale);
    declared.ignored("do_test", "a test set can be given as the valid channel");
    declared.ignored("test_filelist", "a test set can be given as the valid channel");
    declared.ignored("test_save", "nothing is written for a test set");
}

fs::path resolve(const std::string& given, const fs::path& channel) {
    std::error_code ignored;
    if (!given.empty() && fs::is_regular_file(given, ignored)) return given;
    return find_file(given, channel);
}

fs::path list_of(const std::string& given, const char* standard, const fs::path& channel) {
    const std::string name = given.empty() ? standard : given;
    const fs::path found = resolve(name, channel);
    if (found.empty())
        fail(
            "file list {} is neither there nor, by its base name, in {}; put it into the channel, "
            "a "
            "line path<TAB>mask_word_prob for each file",
            name, channel.string());
    return found;
}

}  // namespace

std::int64_t Options::warmup() const {
    if (warmup_steps >= 0) return warmup_steps;
    return std::clamp<std::int64_t>(num_train_steps / 10, 1, 5000);
}

Hyperparameters declare(Options& options) {
    Hyperparameters declared("masked-lm");
    declare_model(declared, options);
    declare_data(declared, options);
    declare_training(declared, options);
    declare_output(declared, options);
    return declared;
}

Inputs find_inputs(const Options& options, const Contract& contract) {
    Inputs inputs;
    inputs.train = contract.channel("train");
    inputs.train_list = list_of(options.train_filelist, "train_filelist", inputs.train);
    if (contract.has_channel("valid")) {
        inputs.valid = contract.channel("valid");
        inputs.valid_list = list_of(options.valid_filelist, "valid_filelist", inputs.valid);
    }
    inputs.config = resolve(options.ernie_config_path, inputs.train);
    inputs.vocabulary =
        resolve(options.vocab_path.empty() ? "vocab.txt" : options.vocab_path, inputs.train);
    if (inputs.vocabulary.empty() && !options.vocab_path.empty())
        fail("vocab_path: {} is neither there nor, by its base name, in {}", options.vocab_path,
             inputs.train.string());
    const std::string start =
        options.init_checkpoint.empty() ? options.init_pretraining_params : options.init_checkpoint;
    const bool channel = contract.has_channel("model");
    std::error_code ignored;
    if (!start.empty()) {
        const fs::path inside = channel ? contract.channel("model") / start : fs::path();
        if (channel && fs::exists(inside, ignored))
            inputs.start = inside;
        else if (fs::exists(start, ignored))
            inputs.start = start;
        else
            fail("init_checkpoint: {} is neither there nor in the channel model", start);
    } else if (channel) {
        inputs.start = contract.channel("model");
    }
    return inputs;
}

fs::path config_folder() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) return {};
    fs::path folder = self.parent_path() / (self.filename().string() + ".config");
    return fs::is_regular_file(folder / "config.yaml", error) ? folder : fs::path();
}

}  // namespace alg
