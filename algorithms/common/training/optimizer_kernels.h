// SPDX-License-Identifier: Apache-2.0
// The inner loops over parameters: plain arrays, no LibTorch. Each element is computed on its own,
// so results depend neither on threads nor on how arrays are cut.
#pragma once

#include <cstdint>
#include <vector>

namespace alg {

/// Several arrays seen as one, cut into equal chunks for threads.
class Flat {
public:
    static constexpr std::int64_t kChunk = 1 << 15;

    Flat() : starts_{0} {}
    explicit Flat(const std::vector<std::int64_t>& sizes);
    std::int64_t size() const { return starts_.back(); }
    std::int64_t chunks() const { return (size() + kChunk - 1) / kChunk; }
    /// Calls use(array, first, count) for each part of chunk number `chunk`.
    template <typename Use>
    void parts(std::int64_t chunk, const Use& use) const;

private:
    std::size_t array_of(std::int64_t element) const;
    std::vector<std::int64_t> starts_;  ///< of each array, and the end
};

template <typename Use>
void Flat::parts(std::int64_t chunk, const Use& use) const {
    const std::int64_t begin = chunk * kChunk;
    const std::int64_t end = begin + kChunk < size() ? begin + kChunk : size();
    std::size_t array = array_of(begin);
    for (std::int64_t at = begin; at < end; ++array) {
        const std::int64_t stop = starts_[array + 1] < end ? starts_[array + 1] : end;
        if (stop > at) {
            use(array, at - starts_[array], stop - at);
            at = stop;
        }
    }
}

/// What is the same for all elements of a step.
struct AdamwStep {
    float gradient_scale, beta2;
    float new1, new2;       ///< 1 - beta1 and 1 - beta2, subtracted in double
    float rate_corrected;   ///< rate / (1 - beta1^t)
    float root_correction;  ///< 1 / sqrt(1 - beta2^t)
    float epsilon;
};
/// p *= keep; m += (1 - beta1)(g - m); v = beta2 v + (1 - beta2) g²;
/// p -= rate_corrected * m / (sqrt(v) * root_correction + epsilon). No gradient: zeros.
void adamw(float* p, const float* g, float* m, float* v, std::int64_t n, const AdamwStep& step,
           float keep);

struct SgdStep {
    float gradient_scale, rate, momentum;
    bool nesterov;
};
/// g += decay p; b = momentum b + g; p -= rate * (nesterov ? g + momentum b : b).
void sgd(float* p, const float* g, float* b, std::int64_t n, const SgdStep& step, float decay);

/// In double: a float's square overflows early.
double sum_of_squares(const float* x, std::int64_t n);

}  // namespace alg
