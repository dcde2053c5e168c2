// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"
#include "transformer/encoder.h"

#include <ATen/ATen.h>

namespace alg {

Pooler::Pooler(std::int64_t hidden, double deviation, std::uint64_t key) {
    weight_ = parameter("dense.weight", truncated_normal({hidden, hidden}, deviation, key));
    bias_ = parameter("dense.bias", at::zeros({hidden}), false);
}

torch::Tensor Pooler::forward(const torch::Tensor& encoded, const Packed& shape) const {
    const torch::Tensor firsts = shape.sequences() == 0
                                     ? at::empty({0}, at::kLong)
                                     : shape.offsets.narrow(0, 0, shape.sequences());
    return at::tanh(affine(encoded.index_select(0, firsts.to(encoded.device())), weight_, bias_)
                        .to(at::kFloat));
}

MaskedLmHead::MaskedLmHead(const EncoderConfig& config, const torch::Tensor& shared_embedding,
                           std::uint64_t key)
    : config_(config) {
    const double deviation = config.initializer_range;
    decoder_bias_ = parameter("bias", at::zeros({config.vocabulary}), false);
    weight_ = parameter("transform.dense.weight", truncated_normal({config.hidden, config.hidden},
                                                                   deviation, key_of(key, 1)));
    bias_ = parameter("transform.dense.bias", at::zeros({config.hidden}), false);
    norm_scale_ = parameter("transform.LayerNorm.weight", at::ones({config.hidden}), false);
    norm_bias_ = parameter("transform.LayerNorm.bias", at::zeros({config.hidden}), false);
    decoder_ =
        shared_embedding.defined()
            ? shared_embedding
            : parameter("decoder.weight", truncated_normal({config.vocabulary, config.hidden},
                                                           deviation, key_of(key, 2)));
}

torch::Tensor MaskedLmHead::transform(const torch::Tensor& selected) const {
    Pass pass;
    return add_dropout_norm(affine_activation(selected, weight_, bias_, config_.activation), {}, 0,
                            norm_scale_, norm_bias_, config_.norm_epsilon, pass);
}

torch::Tensor MaskedLmHead::forward(const torch::Tensor& selected) const {
    return affine(transform(selected), decoder_, decoder_bias_);
}

CrossEntropy MaskedLmHead::loss(const torch::Tensor& selected, const torch::Tensor& labels) const {
    return affine_cross_entropy(transform(selected), decoder_, decoder_bias_, labels);
}

LinearHead::LinearHead(std::int64_t hidden, std::int64_t classes, double deviation,
                       std::uint64_t key) {
    weight_ = parameter("weight", truncated_normal({classes, hidden}, deviation, key));
    bias_ = parameter("bias", at::zeros({classes}), false);
}

torch::Tensor LinearHead::forward(const torch::Tensor& pooled) const {
    return affine(pooled, weight_, bias_).to(at::kFloat);
}

}  // namespace alg
