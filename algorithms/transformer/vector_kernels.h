// SPDX-License-Identifier: Apache-2.0
// The inner loops of kernels.cc on plain float arrays, once per instruction set: the table of the
// best one this processor has. One thread each; the callers divide the work. No LibTorch here.
#pragma once

#include "transformer/keep.h"

#include <cstddef>

namespace alg {

/// Rows of layer_norm(x + keep * y).
struct NormForward {
    std::int64_t columns;
    const float *x, *y;  ///< y: may be null
    const float *scale, *bias;
    float epsilon;
    Keep keep;
    float *out, *normal, *reciprocal;  ///< normal: before scale and bias; reciprocal: of the
                                       ///< deviation, one a row
};
struct NormBackward {
    std::int64_t columns;
    const float *grad, *normal, *reciprocal, *scale;
    Keep keep;
    float *dx, *dy;  ///< dy: null when there is no dropout (it is dx then)
};
/// One head of one sequence, or of all of them; strides in floats.
struct Attention {
    const float* qkv;  ///< [tokens, 3 * heads * size]
    const std::int64_t* offsets;
    std::int64_t heads, size, longest;
    float factor;  ///< of scores
    bool causal;
    const bool* dense;            ///< null, or the first query's keys of the first sequence
    std::int64_t dense_sequence;  ///< from one sequence's mask to the next's; 0: all have the same
    Keep keep;
    float *out, *logsum;  ///< [tokens, heads * size]; [tokens, heads]: log of the sum of exp
};
struct AttentionBackward {
    Attention forward;
    const float* grad;  ///< as out
    float* dqkv;        ///< as qkv
};
struct RowLoss {
    float loss;
    bool correct;
};

struct VectorKernels {
    const char* name;
    void (*dropout)(const float* x, float* out, const Keep& keep, std::int64_t begin,
                    std::int64_t end);
    void (*norm_forward)(const NormForward& a, std::int64_t begin, std::int64_t end);
    /// sums [3 * columns] gets added: gradient of scale, of bias, and the column sums of dy.
    void (*norm_backward)(const NormBackward& a, float* sums, std::int64_t begin, std::int64_t end);
    void (*gelu)(const float* x, float* out, std::int64_t count);
    void (*relu)(const float* x, float* out, std::int64_t count);
    /// dx = grad * activation'(x) for rows; sums [columns] gets the column sums added. relu: `x`
    /// may be its result.
    void (*gelu_backward)(const float* x, const float* grad, float* dx, float* sums,
                          std::int64_t columns, std::int64_t rows);
    void (*relu_backward)(const float* x, const float* grad, float* dx, float* sums,
                          std::int64_t columns, std::int64_t rows);
    void (*column_sums)(const float* x, float* sums, std::int64_t columns, std::int64_t rows);
    /// The row becomes its own gradient times weight; label >= 0.
    RowLoss (*cross_entropy)(const float* logits, float* gradient, std::int64_t columns,
                             std::int64_t label, float weight);
    /// Floats of scratch memory the attention kernels need.
    std::int64_t (*attention_scratch)(const Attention& a, bool backward);
    void (*attention)(const Attention& a, float* scratch, std::int64_t sequence, std::int64_t head);
    void (*attention_backward)(const AttentionBackward& a, float* scratch, std::int64_t sequence,
                               std::int64_t head);
};
const VectorKernels& vector_kernels();
/// For tests: "plain", "avx2" or "avx512"; null when this processor has not got it.
const VectorKernels* vector_kernels(const char* name);

}  // namespace alg
