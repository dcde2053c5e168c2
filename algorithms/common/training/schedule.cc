// SPDX-License-Identifier: Apache-2.0
#include "common/training/schedule.h"

#include <algorithm>
#include <cmath>

namespace alg {

namespace {

/// min(t^-0.5, t * warmup^-1.5); without a warm-up only the first.
double inverse_sqrt(double t, double warmup) {
    return warmup > 0 ? std::min(std::pow(t, -0.5), t * std::pow(warmup, -1.5)) : std::pow(t, -0.5);
}

}  // namespace

Schedule constant_rate(double rate) {
    return [rate](std::int64_t) { return rate; };
}

Schedule linear_warmup_decay(double rate, std::int64_t warmup, std::int64_t total, bool from_one) {
    return [=](std::int64_t update) {
        const std::int64_t step = update + (from_one ? 1 : 0);
        const auto t = static_cast<double>(step);
        if (step < warmup) {
            return rate * t / static_cast<double>(warmup);
        }
        return total > 0 ? rate * std::max(0.0, 1 - t / static_cast<double>(total)) : 0.0;
    };
}

Schedule linear_schedule(double rate, std::int64_t warmup, std::int64_t total) {
    return [=](std::int64_t update) {
        const auto t = static_cast<double>(update);
        if (update < warmup) {
            return rate * t / static_cast<double>(warmup);
        }
        const auto span = static_cast<double>(std::max<std::int64_t>(1, total - warmup));
        return rate * std::max(0.0, (static_cast<double>(total) - t) / span);
    };
}

Schedule warmup_inverse_sqrt(double rate, std::int64_t warmup) {
    return [=](std::int64_t update) {
        const auto t = static_cast<double>(update + 1);
        const auto w = static_cast<double>(warmup);
        return rate * (warmup > 0 ? std::sqrt(w) : 1) * inverse_sqrt(t, w);
    };
}

Schedule noam(double rate, std::int64_t hidden, std::int64_t warmup) {
    return [=](std::int64_t update) {
        return rate * std::pow(static_cast<double>(hidden), -0.5) *
               inverse_sqrt(static_cast<double>(update + 1), static_cast<double>(warmup));
    };
}

Schedule exponential(double rate, double gamma, std::int64_t updates_per_epoch) {
    return [=](std::int64_t update) {
        return rate * std::pow(gamma, static_cast<double>(
                                          update / std::max<std::int64_t>(1, updates_per_epoch)));
    };
}

}  // namespace alg
