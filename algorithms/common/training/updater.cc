// SPDX-License-Identifier: Apache-2.0
// Collectives of one update, in the same order on every rank whatever it has to do: the counts, all
// buckets of gradients, the sums of the loss.
#include "common/training/updater.h"

#include "common/base/error.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>

namespace alg {

Updater::Updater(std::vector<Parameter> parameters, Optimizer& optimizer, Schedule schedule,
                 Group& group, UpdateOptions options)
    : parameters_(std::move(parameters)),
      optimizer_(optimizer),
      schedule_(std::move(schedule)),
      group_(group),
      options_(options),
      scale_(options.precision),
      buckets_(parameters_, group) {}

void Updater::begin(std::span<const std::vector<double>> counts) {
    if (counts.empty()) {
        throw std::logic_error(
            "an update needs a micro-batch on every rank, an empty one at least");
    }
    micro_ = 0;
    micros_ = counts.size();
    const std::size_t terms = counts[0].size();
    totals_ = at::zeros({static_cast<std::int64_t>(terms)}, at::kDouble);
    double* const totals = totals_.mutable_data_ptr<double>();
    for (const std::vector<double>& micro : counts) {
        if (micro.size() != terms) {
            throw std::logic_error("micro-batches differ in their number of loss terms");
        }
        for (std::size_t t = 0; t < terms; ++t) {
            totals[t] += micro[t];
        }
    }
    // Needed by the first backward pass only: underway during the first forward pass.
    totals_coming_ = group_.start_sum(totals_);
    sums_.assign(terms + 1, {});
    buckets_.zero();
}

void Updater::add(std::size_t index, const torch::Tensor& value) {
    // Left where it was computed: asking a GPU for a number would stop it.
    const torch::Tensor wide = value.detach().to(at::kDouble);
    sums_[index] = sums_[index].defined() ? sums_[index] + wide : wide;
}

void Updater::backward(const std::vector<LossTerm>& terms) {
    if (micro_ == micros_ || terms.size() + 1 != sums_.size()) {
        throw std::logic_error("backward() does not fit the counts given to begin()");
    }
    if (totals_coming_) {
        totals_coming_->wait();
        totals_coming_.reset();
    }
    if (++micro_ == micros_) {
        buckets_.expect_last();
    }
    const double* const totals = totals_.const_data_ptr<double>();
    torch::Tensor loss;
    for (std::size_t t = 0; t < terms.size(); ++t) {
        if (!terms[t].sum.defined() || totals[t] <= 0) {
            continue;
        }
        add(t, terms[t].sum);
        const torch::Tensor part = terms[t].sum.to(at::kFloat) * (terms[t].weight / totals[t]);
        loss = loss.defined() ? loss + part : part;
    }
    if (!loss.defined()) {
        return;
    }
    add(terms.size(), loss);
    if (loss.requires_grad()) {
        torch::autograd::backward({scale_.value() == 1 ? loss : loss * scale_.value()});
    }
}

/// Sums over all ranks: of each term, and last the loss.
std::vector<double> Updater::summed() {
    std::vector<double> numbers;
    for (const torch::Tensor& sum : sums_) {
        numbers.push_back(sum.defined() ? sum.item<double>() : 0);
    }
    group_.sum(std::span<double>(numbers));
    return numbers;
}

UpdateResult Updater::finish(const std::function<void()>& before_step) {
    if (micro_ != micros_) {
        throw std::logic_error("finish() before all micro-batches have had their backward()");
    }
    const torch::NoGradGuard no_grad;
    buckets_.start_rest();
    const std::vector<double> sums = summed();
    buckets_.finish();

    UpdateResult result;
    result.rate = schedule_(updates_++);
    result.norm = buckets_.norm() / scale_.value();
    bool finite = std::isfinite(result.norm);
    const double* const totals = totals_.const_data_ptr<double>();
    for (std::size_t t = 0; t + 1 < sums.size(); ++t) {
        finite = finite && std::isfinite(sums[t]);
        result.means.push_back(totals[t] > 0 ? sums[t] / totals[t] : 0);
    }
    result.loss = sums.back();
    result.skipped = !finite || !std::isfinite(result.loss);
    if (result.skipped) {
        ++skipped_;
    } else {
        // As torch.nn.utils.clip_grad_norm_, epsilon included.
        const double clip =
            options_.clip_norm > 0 ? std::min(1.0, options_.clip_norm / (result.norm + 1e-6)) : 1;
        if (before_step) {
            before_step();
        }
        optimizer_.step(result.rate, clip / scale_.value());
    }
    scale_.update(!result.skipped);
    return result;
}

void Updater::restore(std::int64_t updates, std::int64_t skipped,
                      const std::vector<double>& scale) {
    updates_ = updates;
    skipped_ = skipped;
    scale_.restore(scale);
}

}  // namespace alg
