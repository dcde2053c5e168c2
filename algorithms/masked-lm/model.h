// SPDX-License-Identifier: Apache-2.0
// ERNIE 1.0: the encoder, a head that says whether the second sentence follows the first, and one
// that says which words were there.
#pragma once

#include "common/training/updater.h"
#include "masked-lm/options.h"
#include "masked-lm/round.h"
#include "text/wordpiece.h"
#include "transformer/encoder.h"

#include <optional>

namespace alg {

/// Shape from, in rising order: ERNIE's own, the configuration file, hyperparameters. Throws
/// Failure when they contradict each other, the vocabulary or max_seq_len.
EncoderConfig shape_of(const Options& options, const Inputs& inputs,
                       const std::optional<Vocabulary>& vocabulary);

/// Losses of one micro-batch: sums, to be divided by samples and by selected tokens.
struct Losses {
    torch::Tensor follows, words;  ///< undefined when the batch has none
    std::int64_t follows_correct = 0, words_correct = 0;
};

class MaskedLm : public Module {
public:
    MaskedLm(const EncoderConfig& config, bool weight_sharing, std::uint64_t seed);
    Losses losses(const Batch& batch, torch::Device device, Pass& pass) const;

    struct Logits {
        torch::Tensor words;    ///< [tokens, vocabulary]
        torch::Tensor follows;  ///< [samples, 2]
    };
    /// Of all tokens, without dropout.
    Logits logits(const Batch& batch, torch::Device device) const;
    const EncoderConfig& config() const { return encoder_.config(); }
    bool weight_sharing() const { return weight_sharing_; }
    const torch::Tensor& word_embedding() const { return encoder_.word_embedding(); }

private:
    torch::Tensor encode(const Batch& batch, const Packed& shape, torch::Device device,
                         Pass& pass) const;

    bool weight_sharing_;
    Encoder encoder_;
    Pooler pooler_;
    LinearHead follows_;
    MaskedLmHead words_;
};

/// Starts from the weights of a file, a folder, or a model.tar.gz (also one in that folder). What
/// the file lacks or has too much is said; another shape throws Failure with both shapes.
void start_from(const MaskedLm& model, const fs::path& weights);

}  // namespace alg
