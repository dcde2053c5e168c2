// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/journal.h"

#include "common/base/log.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace alg {

void Journal::add(const JournalStep& step) {
    ++steps_;
    rate_ = step.rate;
    if (step.skipped) {
        ++skipped_;
        return;
    }
    loss_.add(step.follows + step.words);
    ppl_.add(std::exp(step.words));
}

void Journal::report(const JournalPlace& place, double tokens, double correct, double samples) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::max(std::chrono::duration<double>(now - since_).count(), 1e-9);
    progress_.at(place.step);
    // Where every update was skipped there is no loss: "nan" is no number of a metric.
    const double none = std::numeric_limits<double>::quiet_NaN();
    const bool any = loss_.weight() > 0;
    say("feed_queue size {}", place.queue);
    say("current learning_rate:{:.6f}", rate_);
    say("epoch: {}, progress: {}/{}, step: {}, loss: {:.6f}, ppl: {:.6f}, next_sent_acc: {:.6f}, "
        "speed: {:.6f} steps/s, file: {}, mask_type: {}",
        place.epoch, place.file_place, place.files, place.step, any ? loss_.value() : none,
        any ? ppl_.value() : none, samples > 0 ? correct / samples : 0,
        static_cast<double>(steps_) / seconds, place.file, place.mask_type);
    say("{:.0f} tokens/s without padding, {}", tokens / seconds, progress_.text());
    if (skipped_ > 0)
        warn("{} of the last {} updates were skipped: loss or gradient not finite", skipped_,
             steps_);
    loss_.reset();
    ppl_.reset();
    steps_ = skipped_ = 0;
    since_ = std::chrono::steady_clock::now();
}

void Journal::report(const JournalPlace& place, const Validation& v) {
    const double words = v.selected > 0 ? v.words / v.selected : 0;
    const double follows = v.samples > 0 ? v.follows / v.samples : 0;
    say("[validation_set] epoch: {}, step: {}, loss: {:.6f}, global ppl: {:.6f}, batch-averged "
        "ppl: "
        "{:.6f}, next_sent_acc: {:.6f}, speed: {:.6f} steps/s",
        place.epoch, place.step, follows + words, std::exp(words),
        v.batches > 0 ? v.ppl / v.batches : 0, v.samples > 0 ? v.correct / v.samples : 0,
        v.batches / std::max(v.seconds, 1e-9));
}

}  // namespace alg
