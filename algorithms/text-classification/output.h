// SPDX-License-Identifier: Apache-2.0
// The folder of a trained model.
#pragma once

#include "text-classification/model.h"

namespace alg {

struct Outcome {
    const Classifier& model;
    const WordPiece& tokenizer;
    const std::vector<std::string>& labels;
    std::map<std::string, std::string> values;  ///< hyperparameters in force
    std::int64_t max_length = 0;
    bool pairs = false, int8 = true;
};

/// config.json, vocab.txt, tokenizer_config.json and model.safetensors (Hugging Face's
/// BertForSequenceClassification), checkpoint.pt (a state dictionary), model.ts and model_int8.ts
/// (TorchScript, compared with the model), config.yaml. Throws Failure when a file cannot be
/// written or answers otherwise than the model.
void write_model(const fs::path& folder, const Outcome& outcome);

}  // namespace alg
