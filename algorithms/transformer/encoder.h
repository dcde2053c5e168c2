// SPDX-License-Identifier: Apache-2.0
// The encoder BERT and ERNIE 1.0 share (post-norm), its heads, and the weights' names in Hugging
// Face's files.
//
// Parameters have Hugging Face's names but for the fused "attention.self.qkv". A model registers
// its parts as the children "bert" (Encoder), "bert.pooler" (Pooler), "cls.predictions"
// (MaskedLmHead), "cls.seq_relationship" and "classifier" (LinearHead).
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
/// Hugging Face's config.json of a BertModel of that shape; add "architectures" and what else a
/// task needs.
nlohmann::json hugging_face_config(const EncoderConfig& config);

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
    /// cross_entropy_sum(forward(selected), labels) without all logits in memory at once: the one
    /// to train with.
    CrossEntropy loss(const torch::Tensor& selected, const torch::Tensor& labels) const;

private:
    EncoderConfig config_;
    torch::Tensor transform(const torch::Tensor& selected) const;
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
/// ("bert.embeddings.…"), our fused query-key-value split in three; copies nothing but that, all
/// contiguous. A shared decoder is left out, as Hugging Face does.
NamedTensors to_hugging_face(const std::vector<Parameter>& parameters);
/// Back: also accepts the older "gamma" and "beta", encoders saved without the prefix "bert." or
/// with "ernie."; drops position_ids and copies that Hugging Face ties (decoder.bias;
/// decoder.weight when it equals the word embeddings). Throws Failure when a part of query, key and
/// value is missing.
NamedTensors from_hugging_face(const NamedTensors& weights);

}  // namespace alg
