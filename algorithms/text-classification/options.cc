// SPDX-License-Identifier: Apache-2.0
#include "text-classification/options.h"

#include "common/base/error.h"

#include <algorithm>

namespace alg {

namespace {

const Range kCount{.at_least = 0, .at_most = 1 << 24};
const Range kPositive{.at_least = 1, .at_most = 1 << 24};

void declare_model(Hyperparameters& declared, Options& o) {
    declared.text("model_name_or_path", &o.model_name_or_path,
                  "folder with config.json, vocab.txt and weights to start from: a path, or a name "
                  "in the channel model; empty: the channel model, else from nothing");
    declared.integer("hidden_size", &o.hidden_size, kCount, "width; from nothing; 0: 768");
    declared.integer("num_hidden_layers", &o.num_hidden_layers, kCount, "from nothing; 0: 12");
    declared.integer("num_attention_heads", &o.num_attention_heads, kCount, "from nothing; 0: 12");
    declared.integer("intermediate_size", &o.intermediate_size, kCount,
                     "width inside the feed-forward part; from nothing; 0: 4 * hidden_size");
    declared.integer("max_position_embeddings", &o.max_position_embeddings, kCount,
                     "from nothing; 0: 512");
    declared.choice("hidden_act", &o.hidden_act, {"configured", "gelu", "relu"},
                    "activation; configured: the model's, else gelu");
    declared.number("dropout", &o.dropout, {.at_least = -1, .below = 1},
                    "all dropout probabilities; -1: as configured, else 0.1");
    declared.text("vocab_path", &o.vocab_path,
                  "vocabulary; empty: of the model to start from, else vocab.txt of the train "
                  "channel, else one is made of the training texts");
    declared.integer("vocab_size", &o.vocab_size, {.at_least = 32, .at_most = 1 << 20},
                     "largest size of a vocabulary made of the training texts");
    declared.integer("vocab_min_frequency", &o.vocab_min_frequency, kPositive,
                     "how often a character or piece of it must be there");
    declared.choice("do_lower_case", &o.do_lower_case, {"configured", "true", "false"},
                    "texts in lower case and without accents; configured: as the model says, else "
                    "true");
}

void declare_data(Hyperparameters& declared, Options& o) {
    declared.choice("format", &o.format, {"auto", "csv", "tsv", "jsonl", "folders"},
                    "of the channels' files; auto: by their names");
    declared.text("text_column", &o.text_column,
                  "name or number (from 0) of the column, or key; empty: known by its usual names");
    declared.text("text_b_column", &o.text_b_column, "the second text's");
    declared.text("label_column", &o.label_column, "the label's");
    declared.text("labels", &o.labels,
                  "classes in the order of their ids, separated by commas; empty: integers keep "
                  "their value, others are sorted");
    declared.integer("num_labels", &o.num_labels, kCount, "to be checked against; 0: not checked");
    declared.integer("max_length", &o.max_length, {.at_least = 8, .at_most = 1 << 16},
                     "tokens of a sample with [CLS] and [SEP]; longer ones are cut");
    declared.alias("max_seq_length", "max_length");
    declared.choice("padding", &o.padding, {"longest", "max_length"},
                    "accepted for the article's sake: nothing is ever padded, samples cost their "
                    "own length either way, and results are the same");
    declared.text("buckets", &o.buckets,
                  "lengths that separate groups, as 32,64,96: a batch holds samples of one group; "
                  "empty: batches of any lengths");
    declared.number("validation_split", &o.validation_split, {.at_least = 0, .below = 1},
                    "part of the training samples to validate with when there is no channel for "
                    "it");
}

void declare_training(Hyperparameters& declared, Options& o) {
    declared.integer("per_device_train_batch_size", &o.batch_size, kPositive,
                     "samples of one process's micro-batch");
    declared.alias("train_batch_size", "per_device_train_batch_size");
    declared.alias("batch_size", "per_device_train_batch_size");
    declared.integer("per_device_eval_batch_size", &o.eval_batch_size, kPositive,
                     "the same when validating");
    declared.alias("eval_batch_size", "per_device_eval_batch_size");
    declared.integer("num_train_epochs", &o.epochs, kPositive, "passes over the training samples");
    declared.alias("epochs", "num_train_epochs");
    declared.integer("max_steps", &o.max_steps, kCount, "updates at most; 0: all epochs");
    declared.alias("max_train_steps", "max_steps");
    declared.integer("gradient_accumulation_steps", &o.accumulate,
                     {.at_least = 1, .at_most = 65536}, "micro-batches of one update");
    declared.alias("accumulate", "gradient_accumulation_steps");
    declared.number("learning_rate", &o.learning_rate, {.above = 0}, "peak learning rate");
    declared.alias("lr", "learning_rate");
    declared.choice("lr_scheduler_type", &o.lr_scheduler_type, {"linear", "constant"},
                    "after the warm-up: down to 0, or as it is");
    declared.number("warmup_ratio", &o.warmup_ratio, {.at_least = 0, .at_most = 1},
                    "part of all updates that warms up");
    declared.integer("warmup_steps", &o.warmup_steps, {.at_least = -1, .at_most = 1 << 30},
                     "the same as a number; -1: by warmup_ratio");
    declared.alias("num_warmup_steps", "warmup_steps");
    declared.number("weight_decay", &o.weight_decay, {.at_least = 0},
                    "decoupled, for all but biases and layer norms");
    declared.number("max_grad_norm", &o.max_grad_norm, {.at_least = 0},
                    "gradients are clipped to it; 0: no clipping");
    declared.text("class_weights", &o.class_weights,
                  "of the loss: balanced (inverse to the classes' frequency), or one number for "
                  "each class, separated by commas; empty: all 1");
    declared.choice("precision", &o.precision, {"fp32", "bf16", "fp16"}, "autocast to this type");
    declared.flag("use_cuda", &o.use_cuda, "a GPU where there is one");
    declared.integer("seed", &o.seed, {.at_least = 0}, "everything random follows from it");
    declared.alias("random_seed", "seed");
    declared.integer("max_bad_steps", &o.max_bad_steps, kPositive,
                     "updates in a row whose loss or gradient is not finite before training gives "
                     "up");
}

void declare_output(Hyperparameters& declared, Options& o) {
    declared.integer("skip_steps", &o.skip_steps, kPositive,
                     "updates between two lines of the log");
    declared.alias("logging_steps", "skip_steps");
    declared.integer("eval_steps", &o.eval_steps, kCount,
                     "updates between two validations besides those after each epoch; 0: none");
    declared.integer("early_stopping_patience", &o.early_stopping_patience, kCount,
                     "training ends after so many validations in a row that were not better; 0: "
                     "never");
    declared.choice("metric_for_best_model", &o.metric_for_best_model, {"accuracy", "f1", "loss"},
                    "what better means");
    declared.integer("save_steps", &o.save_steps, kPositive, "updates between two checkpoints");
    declared.number("save_seconds", &o.save_seconds, {.at_least = 0},
                    "a checkpoint at least so often; 0: by save_steps alone");
    declared.integer("keep_checkpoints", &o.keep_checkpoints, kPositive, "older ones are removed");
    declared.alias("save_total_limit", "keep_checkpoints");
    declared.flag("export_int8", &o.export_int8, "writes model_int8.ts, too");
}

fs::path channel_of(const Contract& contract, std::initializer_list<const char*> names) {
    fs::path found;
    for (const char* name : names)
        if (contract.has_channel(name)) {
            if (!found.empty())
                fail("channels \"{}\" and \"{}\" mean the same; give one of them",
                     found.filename().string(), name);
            found = contract.channel(name);
        }
    return found;
}

/// The folder itself when it has a config.json, else the archive in it.
fs::path start_in(const fs::path& folder) {
    std::error_code error;
    if (fs::is_regular_file(folder, error) || fs::exists(folder / "config.json", error))
        return folder;
    std::vector<fs::path> archives;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
        if (const std::string name = entry.path().filename().string();
            name.ends_with(".tar.gz") || name.ends_with(".tgz"))
            archives.push_back(entry.path());
    if (archives.size() != 1)
        fail("{}: holds neither config.json nor one .tar.gz of a model", folder.string());
    return archives.front();
}

}  // namespace

Hyperparameters declare(Options& options) {
    Hyperparameters declared("text-classification");
    declare_model(declared, options);
    declare_data(declared, options);
    declare_training(declared, options);
    declare_output(declared, options);
    return declared;
}

std::vector<std::string> channel_names() {
    return {"train", "valid", "validation", "eval", "dev", "test"};
}

Inputs find_inputs(const Options& options, const Contract& contract) {
    Inputs inputs;
    inputs.train = contract.channel("train");
    inputs.valid = channel_of(contract, {"valid", "validation", "eval", "dev"});
    inputs.test = channel_of(contract, {"test"});
    const bool channel = contract.has_channel("model");
    const std::string& name = options.model_name_or_path;
    std::error_code ignored;
    if (channel) {
        const fs::path folder = contract.channel("model");
        inputs.start =
            start_in(!name.empty() && fs::exists(folder / name, ignored) ? folder / name : folder);
    } else if (!name.empty()) {
        if (!fs::exists(name, ignored))
            fail(
                "model_name_or_path: there is no \"{}\", and nothing is downloaded; give the "
                "model's files as the channel model, or leave it out to start from nothing",
                name);
        inputs.start = start_in(name);
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
