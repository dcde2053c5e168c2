// SPDX-License-Identifier: Apache-2.0
// The operations of kernels.h on our vector kernels: differentiable functions of float32 tensors on
// the CPU. Private to this folder.
#pragma once

#include "transformer/dropout_mask.h"
#include "transformer/kernels.h"
#include "transformer/vector_kernels.h"

#include <torch/csrc/autograd/custom_function.h>

namespace alg::own {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using torch::autograd::Variable;

/// x [m, k] times weight [n, k] transposed, plus bias [n] if defined; not differentiable.
torch::Tensor times_transposed(const torch::Tensor& x, const torch::Tensor& weight,
                               const torch::Tensor& bias = {});
/// grad [m, n] times weight [n, k].
torch::Tensor times(const torch::Tensor& grad, const torch::Tensor& weight);
/// grad [m, n] transposed times x [m, k].
torch::Tensor transposed_times(const torch::Tensor& grad, const torch::Tensor& x);
/// [n], by a fixed division into blocks of rows: the same for any number of threads.
torch::Tensor column_sums(const torch::Tensor& x);

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias);
torch::Tensor affine_activation(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias, Activation activation);
torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation);
torch::Tensor dropout(const torch::Tensor& x, const DropoutMask& mask);
torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y,
                               const DropoutMask& mask, const torch::Tensor& scale,
                               const torch::Tensor& bias, double epsilon);
torch::Tensor affine_dropout_norm(const torch::Tensor& x, const torch::Tensor& inner,
                                  const NormedLayer& layer, const DropoutMask& mask);
torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads,
                        const Mask& mask, const DropoutMask& dropout);
CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights);
CrossEntropy affine_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& labels);

/// Functions take tensors that may be undefined as optionals.
inline std::optional<torch::Tensor> optional(const torch::Tensor& x) {
    return x.defined() ? std::optional(x) : std::nullopt;
}
/// What a context keeps of a mask.
inline std::vector<std::int64_t> saved(const Keep& keep) {
    return {keep.key0, keep.key1, keep.threshold};
}
Keep restored(const c10::IValue& saved);

}  // namespace alg::own
