// SPDX-License-Identifier: Apache-2.0
// The operations of kernels.h composed of ATen's: what runs on other devices, and what the tests
// hold the kernels against. Results are float32; matrix products follow autocast.
#pragma once

#include "transformer/dropout_mask.h"
#include "transformer/kernels.h"

namespace alg::composition {

torch::Tensor dropout(const torch::Tensor& x, const DropoutMask& mask);
torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y,
                               const DropoutMask& mask, const torch::Tensor& scale,
                               const torch::Tensor& bias, double epsilon);
torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation);
torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads,
                        const Mask& mask, const DropoutMask& dropout);
CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights);

}  // namespace alg::composition
