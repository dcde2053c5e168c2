// SPDX-License-Identifier: Apache-2.0
// BERT with a classifier over its pooled first token.
#pragma once

#include "text-classification/data.h"
#include "transformer/encoder.h"

namespace alg {

/// The shape: of the start's config.json, else of the hyperparameters. Throws Failure when they do
/// not fit each other or the vocabulary.
EncoderConfig shape_of(const Options& options, const fs::path& start, const Vocabulary& vocabulary);

class Classifier : public Module {
public:
    Classifier(const EncoderConfig& config, std::int64_t classes, std::uint64_t seed);
    /// [samples, classes].
    torch::Tensor logits(const Batch& batch, torch::Device device, Pass& pass) const;
    const EncoderConfig& config() const { return encoder_.config(); }
    torch::Device device() const { return encoder_.word_embedding().device(); }

private:
    Encoder encoder_;
    Pooler pooler_;
    LinearHead head_;
};

/// Loads what `folder` has; a classifier of other classes is left as it began. Says what was found.
void start_from(const Classifier& model, const fs::path& folder, const std::string& name,
                bool speaks);

torch::Tensor tensor_of(const std::vector<std::int64_t>& numbers, torch::Device device);

}  // namespace alg
