// SPDX-License-Identifier: Apache-2.0
// The encoder BERT and ERNIE 1.0 share (post-norm), its heads, and the weights' names in Hugging
// Face's files.
#pragma once

#include "common/files/tensors.h"
#include "transformer/kernels.h"

#include <nlohmann/json_fwd.hpp>

namespace alg {

struct EncoderConfig {
    std::int64_t vocabulary = 30522, hidden = 768, layers = 12, heads = 12, intermediate = 3072;
    std::int64_t positions = 512, types = 2;
    Activation activation = Activation::gelu;
    double dropout = 0.1, attention_dropout = 0.1;
    double norm_epsilon = 1e-12, initializer_range = 0.02;
};
/// From ernie_config.json's or Hugging Face config.json's names (vocab_size, hidden_size, …).
/// intermediate: 4 * hidden when absent. Throws Failure listing all wrong or missing values with
/// the file's name.
EncoderConfig read_encoder_config(const fs::path& file, const EncoderConfig& standard);

/// Inputs of a batch, packed.
struct EncoderInput {
    torch::Tensor tokens, types, positions;  ///< int64 [tokens]
    Packed shape;
};

class Encoder : public Module {
public:
    Encoder(const EncoderConfig& config, std::uint64_t key);
    ~Encoder() override;
    /// [tokens, hidden].
    torch::Tensor forward(const EncoderInput& input, Pass& pass, const Mask& mask = {}) const;
    const EncoderConfig& config() const { return config_; }
    const torch::Tensor& word_embedding() const;

private:
    EncoderConfig config_;
    struct Layers;
    std::unique_ptr<Layers> layers_;
};

/// tanh(Linear(first token of each sequence)): [sequences, hidden].
class Pooler : public Module {
public:
    Pooler(std::int64_t hidden, double deviation, std::uint64_t key);
    torch::Tensor forward(const torch::Tensor& encoded, const Packed& shape) const;

private:
    torch::Tensor weight_, bias_;
};

/// Linear + activation + LayerNorm, then logits over the vocabulary: through `embedding` when
/// shared, else own weights.
class MaskedLmHead : public Module {
public:
    MaskedLmHead(const EncoderConfig& config, const torch::Tensor& shared_embedding,
                 std::uint64_t key);
    torch::Tensor forward(const torch::Tensor& selected) const;  ///< [n, hidden] -> [n, vocabulary]

private:
    EncoderConfig config_;
    torch::Tensor weight_, bias_, norm_scale_, norm_bias_, decoder_, decoder_bias_;
};

class LinearHead : public Module {
public:
    LinearHead(std::int64_t hidden, std::int64_t classes, double deviation, std::uint64_t key);
    torch::Tensor forward(const torch::Tensor& pooled) const;

private:
    torch::Tensor weight_, bias_;
};

/// Weights under Hugging Face's names of BertForSequenceClassification / BertForPreTraining
/// ("bert.embeddings.…"), our fused query-key-value split in three, and back.
NamedTensors to_hugging_face(const std::vector<Parameter>& parameters);
NamedTensors from_hugging_face(const NamedTensors& weights);

}  // namespace alg
