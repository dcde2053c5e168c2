// SPDX-License-Identifier: Apache-2.0
// Gradients in flat buckets, filled in the order in which a backward pass makes them (roughly the
// reverse of registration) and summed in one order on every rank: a bucket starts only after all
// before it have started. All calls and hooks run in the thread of the backward pass.
#include "common/base/error.h"
#include "common/training/distributed.h"
#include "common/training/optimizer_kernels.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

namespace alg {

namespace {

using Accumulator = decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()));

double norm_here(const std::vector<torch::Tensor>& tensors) {
    std::vector<torch::Tensor> dense;
    std::vector<std::int64_t> sizes;
    for (const torch::Tensor& tensor : tensors) {
        dense.push_back(tensor.contiguous());
        sizes.push_back(tensor.numel());
    }
    const Flat flat(sizes);
    std::vector<double> sums(static_cast<std::size_t>(flat.chunks()));
    at::parallel_for(0, flat.chunks(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
            double& sum = sums[static_cast<std::size_t>(chunk)];
            flat.parts(chunk, [&](std::size_t i, std::int64_t first, std::int64_t count) {
                sum += sum_of_squares(dense[i].const_data_ptr<float>() + first, count);
            });
        }
    });
    double total = 0;  // in order of chunks: the same whatever the number of threads
    for (const double sum : sums) {
        total += sum;
    }
    return std::sqrt(total);
}

double norm_of(const std::vector<torch::Tensor>& tensors) {
    if (tensors.empty()) {
        return 0;
    }
    if (tensors[0].is_cpu()) {
        return norm_here(tensors);
    }
    const torch::Tensor norms = at::stack(at::_foreach_norm(tensors, 2)).to(at::kDouble);
    return at::linalg_vector_norm(norms).item<double>();
}

}  // namespace

struct GradientBuckets::State {
    struct Slot {
        torch::Tensor value, view;
        std::size_t bucket = 0;
        bool filled = false;  ///< its gradient is in the view
        Accumulator accumulator{};
        std::uintptr_t hook = 0;
    };
    struct Bucket {
        torch::Tensor flat;
        std::vector<std::size_t> slots;
        std::size_t waiting = 0;  ///< slots without this update's last gradient
        std::unique_ptr<Group::Pending> sum;
    };

    explicit State(Group& of) : group(of) {}
    ~State() {
        for (Slot& slot : slots) {
            if (slot.accumulator) {
                slot.accumulator->del_post_hook(slot.hook);
            }
        }
    }

    void fill_buckets(std::size_t bytes);
    void complete(std::size_t index);
    void start(Bucket& bucket);

    Group& group;
    std::vector<Slot> slots;
    std::vector<Bucket> buckets;  ///< none in a world of one
    std::size_t started = 0;
    bool last = false, overlap = true;
};

namespace {

/// Called by autograd after it has added to a parameter's gradient.
class Hook final : public torch::autograd::FunctionPostHook {
public:
    explicit Hook(std::function<void()> call) : call_(std::move(call)) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
        call_();
        return outputs;
    }

private:
    std::function<void()> call_;
};

}  // namespace

void GradientBuckets::State::fill_buckets(std::size_t bytes) {
    std::size_t used = bytes;  // the first parameter opens a bucket
    for (std::size_t i = slots.size(); i-- > 0;) {
        const std::size_t size = slots[i].value.nbytes();
        if (used + size > bytes) {
            buckets.emplace_back();
            used = 0;
        }
        used += size;
        slots[i].bucket = buckets.size() - 1;
        buckets.back().slots.push_back(i);
    }
    for (Bucket& bucket : buckets) {
        std::int64_t total = 0;
        for (const std::size_t i : bucket.slots) {
            total += slots[i].value.numel();
        }
        const torch::Tensor& first = slots[bucket.slots[0]].value;
        bucket.flat = at::zeros({total}, first.options().requires_grad(false));
        std::int64_t at = 0;
        for (const std::size_t i : bucket.slots) {
            const std::int64_t size = slots[i].value.numel();
            slots[i].view = bucket.flat.narrow(0, at, size).view(slots[i].value.sizes());
            at += size;
        }
    }
}

void GradientBuckets::State::complete(std::size_t index) {
    Slot& slot = slots[index];
    if (!slot.filled) {
        // Autograd has handed over the gradient it computed; later ones are added to the view.
        const torch::NoGradGuard no_grad;
        slot.view.copy_(slot.value.grad());
        slot.value.mutable_grad() = slot.view;
        slot.filled = true;
    }
    if (!last || !overlap) {
        return;
    }
    --buckets[slot.bucket].waiting;
    while (started < buckets.size() && buckets[started].waiting == 0) {
        start(buckets[started]);
    }
}

void GradientBuckets::State::start(Bucket& bucket) {
    const torch::NoGradGuard no_grad;
    for (const std::size_t i : bucket.slots) {
        Slot& slot = slots[i];
        if (!slot.filled) {
            slot.view.zero_();
            slot.value.mutable_grad() = slot.view;
            slot.filled = true;
        }
    }
    bucket.sum = group.start_sum(bucket.flat);
    ++started;
}

GradientBuckets::GradientBuckets(const std::vector<Parameter>& parameters, Group& group,
                                 std::size_t bucket_bytes)
    : state_(std::make_shared<State>(group)) {
    for (const Parameter& parameter : parameters) {
        if (parameter.value.scalar_type() != torch::kFloat) {
            fail("parameter \"{}\" is {}; gradients are summed in float32", parameter.name,
                 at::toString(parameter.value.scalar_type()));
        }
        state_->slots.push_back({.value = parameter.value});
    }
    if (group.world() == 1) {
        return;
    }
    state_->fill_buckets(bucket_bytes);
    State* const state = state_.get();  // its destructor removes the hooks
    for (std::size_t i = 0; i < state->slots.size(); ++i) {
        State::Slot& slot = state->slots[i];
        slot.accumulator = torch::autograd::impl::grad_accumulator(slot.value);
        slot.hook = slot.accumulator->add_post_hook(
            std::make_unique<Hook>([state, i] { state->complete(i); }));
    }
}

GradientBuckets::~GradientBuckets() = default;

void GradientBuckets::zero() {
    for (State::Slot& slot : state_->slots) {
        slot.value.mutable_grad().reset();
        slot.filled = false;
    }
    for (State::Bucket& bucket : state_->buckets) {
        bucket.waiting = bucket.slots.size();
        bucket.sum.reset();
    }
    state_->started = 0;
    state_->last = false;
}

void GradientBuckets::expect_last() {
    state_->last = true;
}

void GradientBuckets::start_rest() {
    while (state_->started < state_->buckets.size()) {
        state_->start(state_->buckets[state_->started]);
    }
}

void GradientBuckets::finish() {
    start_rest();
    for (State::Bucket& bucket : state_->buckets) {
        bucket.sum->wait();
    }
    state_->last = false;
}

double GradientBuckets::norm() const {
    std::vector<torch::Tensor> tensors;
    for (const State::Bucket& bucket : state_->buckets) {
        tensors.push_back(bucket.flat);
    }
    if (state_->buckets.empty()) {
        for (const State::Slot& slot : state_->slots) {
            if (slot.value.grad().defined()) {
                tensors.push_back(slot.value.grad());
            }
        }
    }
    return norm_of(tensors);
}

void GradientBuckets::set_overlap(bool on) {
    state_->overlap = on;
}

}  // namespace alg
