// SPDX-License-Identifier: Apache-2.0
// Compiled with -O3 and without errno for sqrt, so that the loops become vector code, in one
// version per instruction set; the loader takes the one that fits the processor.
#include "common/training/optimizer_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ALG_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ALG_VERSIONS
#endif

namespace alg {

Flat::Flat(const std::vector<std::int64_t>& sizes) : starts_{0} {
    for (const std::int64_t size : sizes) {
        starts_.push_back(starts_.back() + size);
    }
}

std::size_t Flat::array_of(std::int64_t element) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), element);
    return static_cast<std::size_t>(after - starts_.begin()) - 1;
}

ALG_VERSIONS static void adamw_loop(float* __restrict p, const float* __restrict g,
                                    float* __restrict m, float* __restrict v, std::int64_t n,
                                    const AdamwStep s, const float keep) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float gradient = g[i] * s.gradient_scale;
        const float first = m[i] + s.new1 * (gradient - m[i]);
        const float second = s.beta2 * v[i] + s.new2 * gradient * gradient;
        m[i] = first;
        v[i] = second;
        const float root = std::sqrt(second) * s.root_correction + s.epsilon;
        p[i] = p[i] * keep - s.rate_corrected * first / root;
    }
}

ALG_VERSIONS static void sgd_loop(float* __restrict p, const float* __restrict g,
                                  float* __restrict b, std::int64_t n, const SgdStep s,
                                  const float decay, const float own, const float moved) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float gradient = g[i] * s.gradient_scale + decay * p[i];
        const float buffer = s.momentum * b[i] + gradient;
        b[i] = buffer;
        p[i] -= s.rate * (own * gradient + moved * buffer);
    }
}

// Sixteen sums side by side, always in this order, so that every version gives the same number.
ALG_VERSIONS static double squares_loop(const float* __restrict x, std::int64_t n) {
    constexpr std::int64_t kLanes = 16;
    std::array<double, kLanes> sums{};
    const std::int64_t whole = n / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            const double value = x[i + lane];
            sums[static_cast<std::size_t>(lane)] += value * value;
        }
    }
    double total = 0;
    for (const double sum : sums) {
        total += sum;
    }
    for (std::int64_t i = whole; i < n; ++i) {
        total += static_cast<double>(x[i]) * x[i];
    }
    return total;
}

namespace {

/// Zeros in place of a gradient that is not there, a block at a time.
constexpr std::int64_t kBlock = 1024;
constexpr std::array<float, kBlock> kZeros{};

}  // namespace

void adamw(float* p, const float* g, float* m, float* v, std::int64_t n, const AdamwStep& step,
           float keep) {
    if (g) {
        adamw_loop(p, g, m, v, n, step, keep);
        return;
    }
    for (std::int64_t i = 0; i < n; i += kBlock) {
        adamw_loop(p + i, kZeros.data(), m + i, v + i, std::min(kBlock, n - i), step, keep);
    }
}

void sgd(float* p, const float* g, float* b, std::int64_t n, const SgdStep& step, float decay) {
    const float own = step.nesterov ? 1 : 0, moved = step.nesterov ? step.momentum : 1;
    if (g) {
        sgd_loop(p, g, b, n, step, decay, own, moved);
        return;
    }
    for (std::int64_t i = 0; i < n; i += kBlock) {
        sgd_loop(p + i, kZeros.data(), b + i, std::min(kBlock, n - i), step, decay, own, moved);
    }
}

double sum_of_squares(const float* x, std::int64_t n) {
    return squares_loop(x, n);
}

}  // namespace alg
