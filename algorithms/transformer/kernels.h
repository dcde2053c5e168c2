// SPDX-License-Identifier: Apache-2.0
// The operations a transformer spends its time in, as differentiable functions: own kernels for
// float32 on the CPU, compositions of ATen's elsewhere (CUDA, other types). Deterministic for a
// fixed number of threads, and independent of it where said.
#pragma once

#include "common/training/module.h"
#include "transformer/packed.h"

namespace alg {

/// x weight^T + bias, as at::linear (`bias` may be undefined); through oneDNN where that is faster
/// than the BLAS.
torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias = {});

/// Inverted dropout. The mask is a function of (pass.key, site, element number) alone: nothing is
/// stored but the key, threads do not matter.
torch::Tensor dropout(const torch::Tensor& x, double p, Pass& pass);

/// layer_norm(x + dropout(y)) over the last dimension, in one pass; `y` may be undefined.
torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y, double p,
                               const torch::Tensor& scale, const torch::Tensor& bias,
                               double epsilon, Pass& pass);

/// add_dropout_norm of x and affine(inner, weight, bias): the end of both halves of a layer.
struct NormedLayer {
    torch::Tensor weight, bias, norm_scale, norm_bias;
    double epsilon;
};
torch::Tensor affine_dropout_norm(const torch::Tensor& x, const torch::Tensor& inner,
                                  const NormedLayer& layer, double p, Pass& pass);

/// x + bias, then the activation; one pass forward, one backward.
enum class Activation { relu, gelu };  ///< gelu: the exact one (erf)
torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation);
/// The same of x weight^T.
torch::Tensor affine_activation(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias, Activation activation);

/// Which keys a query sees.
struct Mask {
    enum class Kind { all, causal, dense } kind = Kind::all;  ///< within its own sequence
    torch::Tensor dense;  ///< Kind::dense: bool [longest, longest] or [sequences, longest,
                          ///< longest]; true: visible. A query that sees nothing yields zeros.
};

/// Multi-head self-attention of packed sequences. `qkv`: [tokens, 3 * hidden] (queries, keys,
/// values). Returns [tokens, hidden]. Scores are scaled by 1/sqrt(hidden/heads); dropout `p` on the
/// probabilities.
torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads, double p,
                        const Mask& mask, Pass& pass);

/// Sum of cross entropies of rows against labels (int64 [rows]; -1: row is left out), optional
/// class weights (the caller divides by the weights' sum), without keeping the probabilities twice.
/// correct: rows whose largest logit is the label.
struct CrossEntropy {
    torch::Tensor sum;  ///< scalar float32, differentiable
    std::int64_t correct = 0;
};
CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights = {});
/// The same of affine(x, weight, bias); the logits are in memory once, and become their gradient.
CrossEntropy affine_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& labels);

}  // namespace alg
