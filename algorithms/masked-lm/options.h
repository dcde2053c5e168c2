// SPDX-License-Identifier: Apache-2.0
// The program's hyperparameters, by the names of ERNIE's pre-training script, and the files they
// lead to. Free of LibTorch.
#pragma once

#include "common/base/contract.h"
#include "common/base/hyperparameters.h"

#include <cstdint>
#include <string>

namespace alg {

struct Options {
    // Model. 0 and "": as the configuration file says, else ERNIE's.
    std::string ernie_config_path = "./config/ernie_config.json";
    std::int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
    std::int64_t intermediate_size = 0, max_position_embeddings = 0, type_vocab_size = 0;
    std::string hidden_act = "configured";
    double dropout = -1;
    bool weight_sharing = true;
    std::string init_checkpoint, init_pretraining_params;
    // Data.
    std::string train_filelist, valid_filelist, vocab_path;
    bool in_tokens = true, generate_neg_sample = false;
    std::int64_t batch_size = 8192, max_seq_len = 512, sort_pool = 1000, round_mib = 4;
    std::string fill = "padded_tokens";
    // Training.
    std::int64_t epoch = 100, num_train_steps = 1'000'000, warmup_steps = -1, accumulate = 1;
    double learning_rate = 1e-4, weight_decay = 0.01, clip_norm = 1.0;
    std::string lr_scheduler = "linear_warmup_decay", precision = "fp32";
    bool use_fp16 = false, use_cuda = true;
    std::int64_t random_seed = 1, max_bad_steps = 20;
    // What is said and kept.
    std::int64_t skip_steps = 10, validation_steps = 100, validation_batches = 40;
    std::int64_t save_steps = 10'000, keep_checkpoints = 3;
    double save_seconds = 0;
    std::string checkpoints;
    bool export_int8 = true;
    // Facilities of tests and benchmarks.
    std::string dump;
    std::int64_t dump_updates = 0;

    /// The original's 5000, but at most a tenth of the steps.
    std::int64_t warmup() const;
};

Hyperparameters declare(Options& options);

/// Files found by the options, in the channels.
struct Inputs {
    fs::path train, valid;  ///< folders; valid may be empty
    fs::path train_list, valid_list;
    fs::path vocabulary;  ///< empty: there is none
    fs::path config;      ///< empty: ERNIE's own shape
    fs::path start;       ///< weights to start from: file or folder; empty: from scratch
};
/// Throws Failure with the places that were searched.
Inputs find_inputs(const Options& options, const Contract& contract);

/// Where the program's configuration groups lie: beside the binary. Empty when they are not there.
fs::path config_folder();

}  // namespace alg
