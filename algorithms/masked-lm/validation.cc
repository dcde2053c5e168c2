// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/validation.h"

#include <ATen/ATen.h>

#include <cmath>

namespace alg {

Validator::Validator(std::vector<ListedFile> files, FeedOptions options, std::int64_t batches)
    : files_(std::move(files)), options_(std::move(options)), limit_(batches) {
    options_.plan.seed = 0;  // whatever the training's: results stay comparable
    options_.plan.world = 1;
    options_.plan.accumulate = 1;
    options_.epochs = 1;
    options_.false_pairs = false;
}

void Validator::add(const Batch& batch, const MaskedLm& model, torch::Device device,
                    Precision precision, Journal::Validation& sums) const {
    const AutocastScope autocast(precision, device);
    Pass pass;
    const Losses losses = model.losses(batch, device, pass);
    sums.samples += static_cast<double>(batch.samples());
    sums.selected += static_cast<double>(batch.selected.size());
    sums.correct += static_cast<double>(losses.follows_correct);
    if (losses.follows.defined()) sums.follows += losses.follows.item<double>();
    if (losses.words.defined()) {
        const double words = losses.words.item<double>();
        sums.words += words;
        sums.ppl += std::exp(words / static_cast<double>(batch.selected.size()));
    }
    sums.batches += 1;
}

Journal::Validation Validator::run(const MaskedLm& model, torch::Device device, Precision precision,
                                   Group& group) {
    const at::NoGradGuard no_grad;
    const auto since = std::chrono::steady_clock::now();
    Journal::Validation sums;
    if (complete_) {
        for (const Batch& batch : held_) add(batch, model, device, precision, sums);
    } else {
        FeedOptions options = options_;
        options.rank = 0;
        Feed feed(files_, options, {});
        for (std::int64_t number = 0; limit_ == 0 || number < limit_; ++number) {
            auto step = feed.next();
            if (!step) break;
            if (number % group.world() != group.rank()) continue;
            add(step->micros[0], model, device, precision, sums);
            if (limit_ > 0) held_.push_back(std::move(step->micros[0]));
        }
        complete_ = limit_ > 0;
    }
    double numbers[] = {sums.follows,  sums.samples, sums.correct, sums.words,
                        sums.selected, sums.ppl,     sums.batches};
    group.sum(numbers);
    return {
        .follows = numbers[0],
        .samples = numbers[1],
        .correct = numbers[2],
        .words = numbers[3],
        .selected = numbers[4],
        .ppl = numbers[5],
        .batches = numbers[6],
        .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count()};
}

}  // namespace alg
