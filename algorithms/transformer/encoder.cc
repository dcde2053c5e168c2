// SPDX-License-Identifier: Apache-2.0
#include "transformer/encoder.h"

#include "common/base/error.h"
#include "common/base/random.h"

#include <ATen/ATen.h>

namespace alg {

namespace {

// What a key is for; numbers are fixed, or initial weights would change.
enum Purpose : std::uint64_t { kWord = 1, kPosition, kType, kQkv, kOut, kUp, kDown, kHead };

class Layer : public Module {
public:
    Layer(const EncoderConfig& c, std::uint64_t key) {
        const auto weight = [&](const char* name, std::int64_t out, std::int64_t in,
                                Purpose purpose) {
            return parameter(
                name, truncated_normal({out, in}, c.initializer_range, key_of(key, purpose)));
        };
        const auto zeros = [&](const char* name, std::int64_t size) {
            return parameter(name, at::zeros({size}), false);
        };
        qkv_weight_ = weight("attention.self.qkv.weight", 3 * c.hidden, c.hidden, kQkv);
        qkv_bias_ = zeros("attention.self.qkv.bias", 3 * c.hidden);
        out_weight_ = weight("attention.output.dense.weight", c.hidden, c.hidden, kOut);
        out_bias_ = zeros("attention.output.dense.bias", c.hidden);
        norm1_scale_ = parameter("attention.output.LayerNorm.weight", at::ones({c.hidden}), false);
        norm1_bias_ = zeros("attention.output.LayerNorm.bias", c.hidden);
        up_weight_ = weight("intermediate.dense.weight", c.intermediate, c.hidden, kUp);
        up_bias_ = zeros("intermediate.dense.bias", c.intermediate);
        down_weight_ = weight("output.dense.weight", c.hidden, c.intermediate, kDown);
        down_bias_ = zeros("output.dense.bias", c.hidden);
        norm2_scale_ = parameter("output.LayerNorm.weight", at::ones({c.hidden}), false);
        norm2_bias_ = zeros("output.LayerNorm.bias", c.hidden);
    }

    torch::Tensor forward(const torch::Tensor& x, const EncoderConfig& c, const Packed& shape,
                          Pass& pass, const Mask& mask) const {
        const torch::Tensor mixed = attention(affine(x, qkv_weight_, qkv_bias_), shape, c.heads,
                                              c.attention_dropout, mask, pass);
        const torch::Tensor attended = affine_dropout_norm(
            x, mixed, {out_weight_, out_bias_, norm1_scale_, norm1_bias_, c.norm_epsilon},
            c.dropout, pass);
        const torch::Tensor inner = affine_activation(attended, up_weight_, up_bias_, c.activation);
        return affine_dropout_norm(
            attended, inner, {down_weight_, down_bias_, norm2_scale_, norm2_bias_, c.norm_epsilon},
            c.dropout, pass);
    }

private:
    torch::Tensor qkv_weight_, qkv_bias_, out_weight_, out_bias_, norm1_scale_, norm1_bias_;
    torch::Tensor up_weight_, up_bias_, down_weight_, down_bias_, norm2_scale_, norm2_bias_;
};

}  // namespace

struct Encoder::Layers {
    torch::Tensor word, position, type, norm_scale, norm_bias;
    std::vector<std::unique_ptr<Layer>> layers;
};

Encoder::Encoder(const EncoderConfig& config, std::uint64_t key)
    : config_(config), layers_(std::make_unique<Layers>()) {
    const auto table = [&](const char* name, std::int64_t rows, Purpose purpose) {
        return parameter(name, truncated_normal({rows, config.hidden}, config.initializer_range,
                                                key_of(key, purpose)));
    };
    layers_->word = table("embeddings.word_embeddings.weight", config.vocabulary, kWord);
    layers_->position = table("embeddings.position_embeddings.weight", config.positions, kPosition);
    layers_->type = table("embeddings.token_type_embeddings.weight", config.types, kType);
    layers_->norm_scale =
        parameter("embeddings.LayerNorm.weight", at::ones({config.hidden}), false);
    layers_->norm_bias = parameter("embeddings.LayerNorm.bias", at::zeros({config.hidden}), false);
    for (std::int64_t i = 0; i < config.layers; ++i) {
        layers_->layers.push_back(std::make_unique<Layer>(config, key_of(key, kHead, i)));
        child(format("encoder.layer.{}", i), *layers_->layers.back());
    }
}

Encoder::~Encoder() = default;

const torch::Tensor& Encoder::word_embedding() const {
    return layers_->word;
}

torch::Tensor Encoder::forward(const EncoderInput& input, Pass& pass, const Mask& mask) const {
    const Layers& own = *layers_;
    const torch::Tensor sum = at::embedding(own.word, input.tokens) +
                              at::embedding(own.position, input.positions) +
                              at::embedding(own.type, input.types);
    torch::Tensor x = dropout(
        at::layer_norm(sum, {config_.hidden}, own.norm_scale, own.norm_bias, config_.norm_epsilon),
        config_.dropout, pass);
    for (const auto& layer : own.layers) {
        x = layer->forward(x, config_, input.shape, pass, mask);
    }
    return x;
}

}  // namespace alg
