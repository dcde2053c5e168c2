// SPDX-License-Identifier: Apache-2.0
// Learning rates as functions of the update's number (0 for the first). Pure.
#pragma once

#include <cstdint>
#include <functional>

namespace alg {

using Schedule = std::function<double(std::int64_t update)>;

Schedule constant_rate(double rate);
/// ERNIE's: rate * t / warmup for t < warmup, then rate * (1 - t / total), measured from 0, so that
/// it drops a little where the warm-up ends. t = update; the original's first step has t = 0 (rate
/// 0) unless `from_one`.
Schedule linear_warmup_decay(double rate, std::int64_t warmup, std::int64_t total,
                             bool from_one = false);
/// warm-up to `rate` and then rate * (total - t) / (total - warmup), as Hugging Face's linear
/// schedule.
Schedule linear_schedule(double rate, std::int64_t warmup, std::int64_t total);
/// rate * sqrt(warmup) * min(t^-0.5, t * warmup^-1.5), t = update + 1: WeNet's WarmupLR; its peak
/// is `rate`.
Schedule warmup_inverse_sqrt(double rate, std::int64_t warmup);
/// ERNIE's noam: hidden^-0.5 * min(t^-0.5, t * warmup^-1.5) * rate, t = update + 1.
Schedule noam(double rate, std::int64_t hidden, std::int64_t warmup);
/// rate * gamma^(update / updates_per_epoch), whole epochs: DeepSpeech's ExponentialLR.
Schedule exponential(double rate, double gamma, std::int64_t updates_per_epoch);

}  // namespace alg
