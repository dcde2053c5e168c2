// SPDX-License-Identifier: Apache-2.0
// What training leaves: weights on the way, and the model's folder at the end.
#pragma once

#include "masked-lm/model.h"

#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>

namespace alg {

/// {"model": weights by Hugging Face's names, "config": …, "step": n}, for torch.load.
void write_weights(const fs::path& file, const NamedTensors& weights, const EncoderConfig& config,
                   std::int64_t step);

/// Weights written while training goes on: copied on a thread while the next forward and backward
/// pass run, as StateKeeper does.
class WeightSnapshots {
public:
    explicit WeightSnapshots(const MaskedLm& model) : model_(model) {}
    ~WeightSnapshots() { finish(); }
    /// Waits for the one before. A disk that is full is a warning.
    void start(const fs::path& file, std::int64_t step);
    /// Parameters are about to change.
    void before_step();
    void finish();

private:
    const MaskedLm& model_;
    std::future<void> copied_;
    std::jthread thread_;
};

/// The model's folder: config.json, vocab.txt, model.safetensors (Hugging Face's
/// BertForPreTraining), ernie.pt, model.ts, model_int8.ts (TorchScript, checked against the model
/// on `sample`) and config.yaml.
void write_model(const fs::path& folder, const MaskedLm& model,
                 const std::optional<Vocabulary>& vocabulary,
                 const std::map<std::string, std::string>& values, std::int64_t step, bool int8);

}  // namespace alg
