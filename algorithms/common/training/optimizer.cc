// SPDX-License-Identifier: Apache-2.0
// Both optimisers: state, checks, and one parallel pass of the kernels over all parameters; on
// other devices LibTorch's own fused steps.
#include "common/training/optimizer.h"

#include "common/base/error.h"
#include "common/training/optimizer_kernels.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <array>
#include <cmath>

namespace alg {

namespace {

/// What both have: parameters, tensors of state beside them, the count of steps.
class Stepper : public Optimizer {
public:
    Stepper(std::vector<Parameter> parameters, const OptimizerOptions& options,
            std::vector<std::string> kinds)
        : parameters_(std::move(parameters)), options_(options), kinds_(std::move(kinds)) {
        std::vector<std::int64_t> sizes;
        state_.resize(kinds_.size());
        for (const Parameter& parameter : parameters_) {
            const torch::Tensor& value = parameter.value;
            if (value.scalar_type() != torch::kFloat || !value.is_contiguous()) {
                fail("parameter \"{}\" is {}{}; the optimizer takes contiguous float32",
                     parameter.name, at::toString(value.scalar_type()),
                     value.is_contiguous() ? "" : " with gaps");
            }
            sizes.push_back(value.numel());
            for (auto& tensors : state_) {
                tensors.push_back(at::zeros(value.sizes(), value.options().requires_grad(false)));
            }
        }
        flat_ = Flat(sizes);
        on_cpu_ = parameters_.empty() || parameters_[0].value.is_cpu();
    }

    void step(double rate, double gradient_scale) override {
        ++steps_;
        const torch::NoGradGuard no_grad;
        if (on_cpu_) {
            collect();
            step_here(rate, gradient_scale);
        } else {
            step_there(rate, gradient_scale);
        }
    }

    std::vector<std::pair<std::string, torch::Tensor>> state() const override {
        std::vector<std::pair<std::string, torch::Tensor>> result;
        for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
            for (std::size_t i = 0; i < parameters_.size(); ++i) {
                result.emplace_back(kinds_[kind] + "." + parameters_[i].name, state_[kind][i]);
            }
        }
        return result;
    }

    std::int64_t steps() const override { return steps_; }
    void set_steps(std::int64_t steps) override { steps_ = steps; }

protected:
    virtual void step_here(double rate, double gradient_scale) = 0;
    virtual void step_there(double rate, double gradient_scale) = 0;

    /// The arrays of parameter number i; g is null without a gradient.
    struct Arrays {
        float* p = nullptr;
        const float* g = nullptr;
        std::array<float*, 2> state{};
        bool decay = true;
    };
    /// Calls use(arrays, first, count) for pieces of all parameters, on all threads.
    template <typename Use>
    void each_piece(const Use& use) const {
        at::parallel_for(0, flat_.chunks(), 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                flat_.parts(chunk, [&](std::size_t i, std::int64_t first, std::int64_t count) {
                    use(arrays_[i], first, count);
                });
            }
        });
    }
    /// Lists of tensors of all parameters that decay, or of all others.
    struct Lists {
        std::vector<torch::Tensor> values, gradients;
        std::array<std::vector<torch::Tensor>, 2> state;
    };
    Lists lists(bool decay) const {
        Lists result;
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            const Parameter& parameter = parameters_[i];
            if (parameter.decay != decay) continue;
            const torch::Tensor& gradient = parameter.value.grad();
            result.values.push_back(parameter.value);
            result.gradients.push_back(gradient.defined() ? gradient
                                                          : at::zeros_like(parameter.value));
            for (std::size_t kind = 0; kind < state_.size(); ++kind) {
                result.state[kind].push_back(state_[kind][i]);
            }
        }
        return result;
    }

    std::vector<Parameter> parameters_;
    OptimizerOptions options_;
    std::int64_t steps_ = 0;

private:
    /// Pointers anew at every step: gradients may be other tensors each time.
    void collect() {
        arrays_.resize(parameters_.size());
        gradients_.clear();
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            Arrays& arrays = arrays_[i];
            const torch::Tensor& value = parameters_[i].value;
            arrays.p = value.mutable_data_ptr<float>();
            arrays.decay = parameters_[i].decay;
            for (std::size_t kind = 0; kind < state_.size(); ++kind) {
                arrays.state[kind] = state_[kind][i].mutable_data_ptr<float>();
            }
            arrays.g = nullptr;
            if (value.grad().defined()) {
                gradients_.push_back(value.grad().contiguous());
                arrays.g = gradients_.back().const_data_ptr<float>();
            }
        }
    }

    std::vector<std::string> kinds_;
    std::vector<std::vector<torch::Tensor>> state_;  ///< [kind][parameter]
    Flat flat_;
    bool on_cpu_ = true;
    std::vector<Arrays> arrays_;
    std::vector<torch::Tensor> gradients_;
};

class Adamw final : public Stepper {
public:
    Adamw(std::vector<Parameter> parameters, const OptimizerOptions& options)
        : Stepper(std::move(parameters), options, {"exp_avg", "exp_avg_sq"}) {}

protected:
    void step_here(double rate, double gradient_scale) override {
        const auto t = static_cast<double>(steps_);
        const AdamwStep step{
            .gradient_scale = static_cast<float>(gradient_scale),
            .beta2 = static_cast<float>(options_.beta2),
            .new1 = static_cast<float>(1 - options_.beta1),
            .new2 = static_cast<float>(1 - options_.beta2),
            .rate_corrected = static_cast<float>(rate / (1 - std::pow(options_.beta1, t))),
            .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t))),
            .epsilon = static_cast<float>(options_.epsilon)};
        const auto keep = static_cast<float>(1 - rate * options_.weight_decay);
        each_piece([&](const Arrays& a, std::int64_t first, std::int64_t count) {
            adamw(a.p + first, a.g ? a.g + first : nullptr, a.state[0] + first, a.state[1] + first,
                  count, step, a.decay ? keep : 1);
        });
    }

    void step_there(double rate, double gradient_scale) override {
        for (const bool decay : {true, false}) {
            const Lists all = lists(decay);
            if (all.values.empty()) continue;
            const auto options = all.values[0].options().requires_grad(false);
            const std::vector<torch::Tensor> steps(
                all.values.size(), at::full({}, static_cast<double>(steps_), options));
            // LibTorch divides by this scale.
            at::_fused_adamw_(all.values, all.gradients, all.state[0], all.state[1], {}, steps,
                              rate, options_.beta1, options_.beta2,
                              decay ? options_.weight_decay : 0, options_.epsilon, false, false,
                              at::full({}, 1 / gradient_scale, options));
        }
    }
};

class Sgd final : public Stepper {
public:
    Sgd(std::vector<Parameter> parameters, const OptimizerOptions& options)
        : Stepper(std::move(parameters), options, {"momentum_buffer"}) {
        if (options.nesterov && options.momentum <= 0) {
            fail("SGD with nesterov needs a momentum above 0, not {}", options.momentum);
        }
    }

protected:
    void step_here(double rate, double gradient_scale) override {
        const SgdStep step{.gradient_scale = static_cast<float>(gradient_scale),
                           .rate = static_cast<float>(rate),
                           .momentum = static_cast<float>(options_.momentum),
                           .nesterov = options_.nesterov};
        const auto decay = static_cast<float>(options_.weight_decay);
        each_piece([&](const Arrays& a, std::int64_t first, std::int64_t count) {
            sgd(a.p + first, a.g ? a.g + first : nullptr, a.state[0] + first, count, step,
                a.decay ? decay : 0);
        });
    }

    void step_there(double rate, double gradient_scale) override {
        for (const bool decay : {true, false}) {
            const Lists all = lists(decay);
            if (all.values.empty()) continue;
            const auto options = all.values[0].options().requires_grad(false);
            at::_fused_sgd_(all.values, all.gradients, all.state[0],
                            decay ? options_.weight_decay : 0, options_.momentum, rate, 0,
                            options_.nesterov, false, false,
                            at::full({}, 1 / gradient_scale, options));
        }
    }
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(std::vector<Parameter> parameters,
                                      const OptimizerOptions& options) {
    return std::make_unique<Adamw>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> make_sgd(std::vector<Parameter> parameters,
                                    const OptimizerOptions& options) {
    return std::make_unique<Sgd>(std::move(parameters), options);
}

}  // namespace alg
