// SPDX-License-Identifier: Apache-2.0
// Chooses between our kernels and compositions of ATen's.
#include "transformer/kernels.h"

#include "transformer/compositions.h"

#include <ATen/ATen.h>

namespace alg {

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias) {
    return at::linear(x, weight, bias);
}

torch::Tensor dropout(const torch::Tensor& x, double p, Pass& pass) {
    return composition::dropout(x, DropoutMask::of(p, pass));
}

torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y, double p,
                               const torch::Tensor& scale, const torch::Tensor& bias,
                               double epsilon, Pass& pass) {
    return composition::add_dropout_norm(x, y, DropoutMask::of(p, pass), scale, bias, epsilon);
}

torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation) {
    return composition::bias_activation(x, bias, activation);
}

torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads, double p,
                        const Mask& mask, Pass& pass) {
    return composition::attention(qkv, shape, heads, mask, DropoutMask::of(p, pass));
}

CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights) {
    return composition::cross_entropy_sum(logits, labels, class_weights);
}

}  // namespace alg
