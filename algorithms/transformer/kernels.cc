// SPDX-License-Identifier: Apache-2.0
// Chooses between our vector kernels (CPU, float32; lower types of autocast are widened, as these
// operations want float32 anyway) and compositions of ATen's operations.
#include "transformer/kernels.h"

#include "common/base/error.h"
#include "transformer/compositions.h"
#include "transformer/functions.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace alg {

namespace {

bool on_cpu(const torch::Tensor& x) {
    return x.device().is_cpu() &&
           (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
            x.scalar_type() == at::kHalf);
}

torch::Tensor wide(const torch::Tensor& x) {
    return x.defined() ? x.to(at::kFloat) : x;
}

// Matrix products obey autocast; ours are for float32.
bool own_products(const torch::Tensor& x, const torch::Tensor& weight) {
    return x.device().is_cpu() && x.scalar_type() == at::kFloat &&
           weight.scalar_type() == at::kFloat && x.dim() == 2 && weight.dim() == 2 &&
           !at::autocast::is_autocast_enabled(at::kCPU);
}

void check(const Mask& mask, const Packed& shape) {
    if (mask.kind != Mask::Kind::dense) {
        return;
    }
    const auto& dense = mask.dense;
    const bool per_sequence = dense.defined() && dense.dim() == 3;
    if (!dense.defined() || (dense.dim() != 2 && !per_sequence) ||
        dense.size(-1) != shape.longest || dense.size(-2) != shape.longest ||
        (per_sequence && dense.size(0) != shape.sequences())) {
        fail("dense attention mask does not fit {} sequences of up to {} tokens", shape.sequences(),
             shape.longest);
    }
}

}  // namespace

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias) {
    return own_products(x, weight) ? own::affine(x.contiguous(), weight, bias)
                                   : at::linear(x, weight, bias);
}

torch::Tensor affine_activation(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias, Activation activation) {
    return own_products(x, weight)
               ? own::affine_activation(x.contiguous(), weight, bias, activation)
               : bias_activation(at::linear(x, weight), bias, activation);
}

CrossEntropy affine_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& labels) {
    return own_products(x, weight) ? own::affine_cross_entropy(x, weight, bias, labels)
                                   : cross_entropy_sum(at::linear(x, weight, bias), labels);
}

torch::Tensor dropout(const torch::Tensor& x, double p, Pass& pass) {
    const DropoutMask mask = DropoutMask::of(p, pass);
    return on_cpu(x) ? own::dropout(wide(x), mask).to(x.scalar_type())
                     : composition::dropout(x, mask);
}

torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y, double p,
                               const torch::Tensor& scale, const torch::Tensor& bias,
                               double epsilon, Pass& pass) {
    const DropoutMask mask = DropoutMask::of(p, pass);
    return on_cpu(x) ? own::add_dropout_norm(wide(x), wide(y), mask, scale, bias, epsilon)
                     : composition::add_dropout_norm(x, y, mask, scale, bias, epsilon);
}

torch::Tensor affine_dropout_norm(const torch::Tensor& x, const torch::Tensor& inner,
                                  const NormedLayer& layer, double p, Pass& pass) {
    if (!own_products(inner, layer.weight) || x.scalar_type() != at::kFloat) {
        return add_dropout_norm(x, affine(inner, layer.weight, layer.bias), p, layer.norm_scale,
                                layer.norm_bias, layer.epsilon, pass);
    }
    return own::affine_dropout_norm(x, inner, layer, DropoutMask::of(p, pass));
}

torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation) {
    return on_cpu(x) && x.dim() == 2 && x.scalar_type() == at::kFloat
               ? own::bias_activation(x, bias, activation)
               : composition::bias_activation(x, bias, activation);
}

torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads, double p,
                        const Mask& mask, Pass& pass) {
    check(mask, shape);
    const DropoutMask dropout = DropoutMask::of(p, pass);
    return on_cpu(qkv) ? own::attention(wide(qkv), shape, heads, mask, dropout)
                       : composition::attention(qkv, shape, heads, mask, dropout);
}

CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights) {
    return on_cpu(logits) ? own::cross_entropy_sum(wide(logits), labels, class_weights)
                          : composition::cross_entropy_sum(logits, labels, class_weights);
}

}  // namespace alg
