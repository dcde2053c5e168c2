// SPDX-License-Identifier: Apache-2.0
// Bodies of the vector kernels, compiled once per instruction set: the including file defines
// ALG_VARIANT (a namespace) and ALG_WIDTH (floats per register). No inline functions of the
// standard library, which the linker might keep in the wrong instruction set.
#pragma once

#include "transformer/vector_kernels.h"

namespace alg {
namespace ALG_VARIANT {

#define ALG_INLINE [[gnu::always_inline]] inline

constexpr std::int64_t kWidth = ALG_WIDTH;
typedef float Vector __attribute__((vector_size(ALG_WIDTH * 4), aligned(4), may_alias));

// exp to about 1e-7 relative for x in [-87, 88]; below, about 1e-38.
ALG_INLINE float fast_exp(float x) {
    x = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
    constexpr float kMagic = 12582912.0F;  // adding 1.5 * 2^23 rounds to an integer
    const float shifted = x * 1.44269504F + kMagic;
    const float n = shifted - kMagic;
    const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
    return p * __builtin_bit_cast(float, bits);
}

// Standard normal distribution function and density. Abramowitz and Stegun 7.1.26, error 1.5e-7.
ALG_INLINE void normal_distribution(float x, float& below, float& density) {
    const float exponential = fast_exp(-0.5F * x * x);
    const float z = __builtin_fabsf(x) * 0.70710678F;
    const float t = 1.0F / (1.0F + 0.3275911F * z);
    float p = 1.061405429F;
    p = p * t - 1.453152027F;
    p = p * t + 1.421413741F;
    p = p * t - 0.284496736F;
    p = p * t + 0.254829592F;
    const float tail = 0.5F * p * t * exponential;  // beyond |x|
    below = x > 0 ? 1.0F - tail : tail;
    density = 0.39894228F * exponential;
}

// keep.at(begin + i) for i < count.
ALG_INLINE void fill_keep(float* out, const Keep& keep, std::uint64_t begin, std::int64_t count) {
    const Keep k = keep;
    std::int64_t i = 0;
    for (; i < count && ((begin + static_cast<std::uint64_t>(i)) & 31U) != 0; ++i) {
        out[i] = k.at(begin + static_cast<std::uint64_t>(i));
    }
    for (; i + 32 <= count; i += 32) {
        const auto first =
            static_cast<std::uint32_t>((begin + static_cast<std::uint64_t>(i)) >> 5 << 4);
        float* const group = out + i;
#pragma omp simd
        for (std::uint32_t l = 0; l < 16; ++l) {
            const std::uint32_t h = k.hash(first + l);
            group[l] = (h & 0xFFFFU) < k.threshold ? 0.0F : k.scale;
            group[l + 16] = (h >> 16) < k.threshold ? 0.0F : k.scale;
        }
    }
    for (; i < count; ++i) {
        out[i] = k.at(begin + static_cast<std::uint64_t>(i));
    }
}

constexpr std::int64_t kPart = 512;  // columns whose mask is made at once

void dropout(const float* x, float* out, const Keep& keep, std::int64_t begin, std::int64_t end) {
    float factor[kPart];
    for (std::int64_t at = begin; at < end; at += kPart) {
        const std::int64_t n = end - at < kPart ? end - at : kPart;
        fill_keep(factor, keep, static_cast<std::uint64_t>(at), n);
        const float* from = x + at;
        float* to = out + at;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
            to[i] = from[i] * factor[i];
        }
    }
}

void norm_forward(const NormForward& a, std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = a.columns;
    const float share = 1.0F / static_cast<float>(columns);
    float factor[kPart];
    for (std::int64_t row = begin; row < end; ++row) {
        const float* x = a.x + row * columns;
        float* z = a.normal + row * columns;
        float* out = a.out + row * columns;
        float sum = 0;
        for (std::int64_t c = 0; c < columns; c += kPart) {
            const std::int64_t n = columns - c < kPart ? columns - c : kPart;
            if (a.y != nullptr && a.keep.active()) {
                const float* y = a.y + row * columns + c;
                fill_keep(factor, a.keep, static_cast<std::uint64_t>(row * columns + c), n);
#pragma omp simd reduction(+ : sum)
                for (std::int64_t i = 0; i < n; ++i) {
                    z[c + i] = x[c + i] + y[i] * factor[i];
                    sum += z[c + i];
                }
            } else if (a.y != nullptr) {
                const float* y = a.y + row * columns + c;
#pragma omp simd reduction(+ : sum)
                for (std::int64_t i = 0; i < n; ++i) {
                    z[c + i] = x[c + i] + y[i];
                    sum += z[c + i];
                }
            } else {
#pragma omp simd reduction(+ : sum)
                for (std::int64_t i = 0; i < n; ++i) {
                    z[c + i] = x[c + i];
                    sum += z[c + i];
                }
            }
        }
        const float mean = sum * share;
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t i = 0; i < columns; ++i) {
            squares += (z[i] - mean) * (z[i] - mean);
        }
        const float reciprocal = 1.0F / __builtin_sqrtf(squares * share + a.epsilon);
        const float* scale = a.scale;
        const float* bias = a.bias;
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
            z[i] = (z[i] - mean) * reciprocal;
            out[i] = z[i] * scale[i] + bias[i];
        }
        a.reciprocal[row] = reciprocal;
    }
}

void norm_backward(const NormBackward& a, float* sums, std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = a.columns;
    const float share = 1.0F / static_cast<float>(columns);
    float* d_scale = sums;
    float* d_bias = sums + columns;
    float* d_y = sums + 2 * columns;
    const float* scale = a.scale;
    float factor[kPart];
    for (std::int64_t row = begin; row < end; ++row) {
        const float* g = a.grad + row * columns;
        const float* z = a.normal + row * columns;
        float sum = 0;
        float product = 0;
#pragma omp simd reduction(+ : sum, product)
        for (std::int64_t i = 0; i < columns; ++i) {
            const float scaled = g[i] * scale[i];
            sum += scaled;
            product += scaled * z[i];
            d_scale[i] += g[i] * z[i];
            d_bias[i] += g[i];
        }
        const float mean = sum * share;
        const float slope = product * share;
        const float reciprocal = a.reciprocal[row];
        float* dx = a.dx + row * columns;
        if (a.dy == nullptr) {
#pragma omp simd
            for (std::int64_t i = 0; i < columns; ++i) {
                dx[i] = reciprocal * (g[i] * scale[i] - mean - z[i] * slope);
                d_y[i] += dx[i];
            }
            continue;
        }
        for (std::int64_t c = 0; c < columns; c += kPart) {
            const std::int64_t n = columns - c < kPart ? columns - c : kPart;
            fill_keep(factor, a.keep, static_cast<std::uint64_t>(row * columns + c), n);
            float* dy = a.dy + row * columns;
#pragma omp simd
            for (std::int64_t i = c; i < c + n; ++i) {
                dx[i] = reciprocal * (g[i] * scale[i] - mean - z[i] * slope);
                dy[i] = dx[i] * factor[i - c];
                d_y[i] += dy[i];
            }
        }
    }
}

void gelu(const float* x, float* out, std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        float below = 0;
        float density = 0;
        normal_distribution(x[i], below, density);
        out[i] = x[i] * below;
    }
}

void relu(const float* x, float* out, std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = x[i] < 0 ? 0 : x[i];  // NaN stays
    }
}

void gelu_backward(const float* x, const float* grad, float* dx, float* sums, std::int64_t columns,
                   std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row, x += columns, grad += columns, dx += columns) {
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
            float below = 0;
            float density = 0;
            normal_distribution(x[i], below, density);
            dx[i] = grad[i] * (below + x[i] * density);
            sums[i] += dx[i];
        }
    }
}

void relu_backward(const float* x, const float* grad, float* dx, float* sums, std::int64_t columns,
                   std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row, x += columns, grad += columns, dx += columns) {
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
            dx[i] = x[i] <= 0 ? 0 : grad[i];
            sums[i] += dx[i];
        }
    }
}

void column_sums(const float* x, float* sums, std::int64_t columns, std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row, x += columns) {
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
            sums[i] += x[i];
        }
    }
}

ALG_INLINE float largest_of(const float* x, std::int64_t count) {
    float largest = -__builtin_inff();
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < count; ++i) {
        largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

RowLoss cross_entropy(const float* logits, float* gradient, std::int64_t columns,
                      std::int64_t label, float weight) {
    const float largest = largest_of(logits, columns);
    const float of_label = logits[label];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < columns; ++i) {
        const float e = fast_exp(logits[i] - largest);
        gradient[i] = e;
        sum += e;
    }
    const float factor = weight / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
        gradient[i] *= factor;
    }
    gradient[label] -= weight;
    // A NaN anywhere reaches the sum, and so the loss.
    return {weight * (__builtin_logf(sum) + largest - of_label), of_label >= largest};
}

#include "transformer/attention_impl.h"

extern const VectorKernels kKernels;
const VectorKernels kKernels = {ALG_NAME,
                                dropout,
                                norm_forward,
                                norm_backward,
                                gelu,
                                relu,
                                gelu_backward,
                                relu_backward,
                                column_sums,
                                cross_entropy,
                                attention_scratch,
                                attention,
                                attention_backward};

}  // namespace ALG_VARIANT
}  // namespace alg
