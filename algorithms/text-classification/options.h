// SPDX-License-Identifier: Apache-2.0
// Hyperparameters of text-classification, under Hugging Face's and the article's names.
#pragma once

#include "common/base/contract.h"
#include "common/base/hyperparameters.h"

#include <string>

namespace alg {

struct Options {
    // the model
    std::string model_name_or_path, vocab_path, hidden_act = "configured";
    std::int64_t hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
    std::int64_t intermediate_size = 0, max_position_embeddings = 0;
    std::int64_t vocab_size = 8000, vocab_min_frequency = 2;
    std::string do_lower_case = "configured";
    double dropout = -1;
    // the data
    std::string format = "auto", text_column, text_b_column, label_column, labels;
    std::int64_t num_labels = 0, max_length = 128;
    std::string padding = "longest", buckets;
    double validation_split = 0.1;
    // training
    std::int64_t batch_size = 8, eval_batch_size = 64, epochs = 2, max_steps = 0, accumulate = 1;
    double learning_rate = 5e-5, weight_decay = 0.01, max_grad_norm = 1;
    std::string lr_scheduler_type = "linear";
    double warmup_ratio = 0.1;
    std::int64_t warmup_steps = -1;
    std::string class_weights, precision = "fp32";
    bool use_cuda = true;
    std::int64_t seed = 1, max_bad_steps = 100;
    // what comes out
    std::int64_t skip_steps = 50, eval_steps = 0, early_stopping_patience = 0;
    std::string metric_for_best_model = "accuracy";
    std::int64_t save_steps = 500, keep_checkpoints = 3;
    double save_seconds = 0;
    bool export_int8 = true;
};

/// `options` outlives the result.
Hyperparameters declare(Options& options);

/// Channels, by any of their names; empty: not given.
struct Inputs {
    fs::path train, valid, test;
    fs::path start;  ///< a folder with config.json and weights, or a .tar.gz of one; empty: none
};
Inputs find_inputs(const Options& options, const Contract& contract);
std::vector<std::string> channel_names();

/// Configuration groups beside the program, or nothing.
fs::path config_folder();

}  // namespace alg
