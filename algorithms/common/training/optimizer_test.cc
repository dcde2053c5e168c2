// SPDX-License-Identifier: Apache-2.0
#include "common/training/optimizer.h"

#include "common/base/error.h"
#include "common/base/random.h"
#include "common/training/optimizer_kernels.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>

using namespace alg;

namespace {

constexpr int kSteps = 100;
const OptimizerOptions kOptions{.weight_decay = 0.05};

/// A big one that spans chunks, a bias, and one that never has a gradient.
struct Set {
    std::vector<Parameter> parameters;
    Set() {
        add("weight", {257, 301}, true);
        add("bias", {13}, false);
        add("unused", {5}, true);
    }
    void add(const std::string& name, torch::IntArrayRef shape, bool decay) {
        parameters.push_back(
            {name, normal(shape, 0.5, key_of(1, parameters.size())).requires_grad_(true), decay});
    }
    /// New gradients of step t; the last has none.
    void gradients(int t) {
        for (std::size_t i = 0; i + 1 < parameters.size(); ++i) {
            torch::Tensor& value = parameters[i].value;
            value.mutable_grad() = normal(value.sizes(), 0.1, key_of(2, i, t));
        }
    }
};

double rate_of(int t) {
    return 1e-2 / (1 + t);
}

/// Largest difference relative to the parameters' scale.
double difference(const torch::Tensor& a, const torch::Tensor& b) {
    return (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs().max().item<double>();
}

torch::Tensor wide(const torch::Tensor& a) {
    return a.detach().to(at::kDouble, false, true);
}

}  // namespace

TEST_CASE("AdamW follows its formula in double precision, clipping factor included") {
    Set ours;
    const auto optimizer = make_adamw(ours.parameters, kOptions);
    std::vector<torch::Tensor> p, m, v;
    for (const Parameter& parameter : ours.parameters) {
        p.push_back(wide(parameter.value));
        m.push_back(at::zeros_like(p.back()));
        v.push_back(at::zeros_like(p.back()));
    }
    for (int t = 0; t < kSteps; ++t) {
        ours.gradients(t);
        const double rate = rate_of(t), scale = t % 2 ? 0.25 : 1;
        optimizer->step(rate, scale);
        for (std::size_t i = 0; i < p.size(); ++i) {
            const torch::Tensor& gradient = ours.parameters[i].value.grad();
            const torch::Tensor g =
                gradient.defined() ? wide(gradient) * scale : at::zeros_like(p[i]);
            if (ours.parameters[i].decay) {
                p[i] *= 1 - rate * kOptions.weight_decay;
            }
            m[i] = m[i] * 0.9 + g * 0.1;
            v[i] = v[i] * 0.999 + g * g * 0.001;
            const torch::Tensor root =
                v[i].sqrt() / std::sqrt(1 - std::pow(0.999, t + 1)) + kOptions.epsilon;
            p[i] -= rate / (1 - std::pow(0.9, t + 1)) * m[i] / root;
        }
    }
    for (std::size_t i = 0; i < p.size(); ++i) {
        CHECK(difference(ours.parameters[i].value, p[i]) < 2e-6);
    }
    CHECK(optimizer->steps() == kSteps);
}

TEST_CASE("AdamW gives what LibTorch's fused step gives") {
    Set ours, theirs;
    const auto optimizer = make_adamw(ours.parameters, kOptions);
    std::vector<torch::Tensor> m, v;
    for (const Parameter& parameter : theirs.parameters) {
        m.push_back(at::zeros_like(parameter.value.detach()));
        v.push_back(at::zeros_like(parameter.value.detach()));
    }
    for (int t = 0; t < kSteps; ++t) {
        ours.gradients(t);
        theirs.gradients(t);
        optimizer->step(rate_of(t), 1);
        const torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < 2; ++i) {
            const Parameter& p = theirs.parameters[i];
            at::_fused_adamw_({p.value}, {p.value.grad()}, {m[i]}, {v[i]}, {},
                              {at::full({}, t + 1, at::kFloat)}, rate_of(t), 0.9, 0.999,
                              p.decay ? kOptions.weight_decay : 0, 1e-8, false, false);
        }
    }
    const auto state = optimizer->state();
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK(difference(ours.parameters[i].value, theirs.parameters[i].value) < 4e-6);
        CHECK(difference(state[i].second, m[i]) < 1e-7);
        CHECK(difference(state[3 + i].second, v[i]) < 1e-7);
    }
}

TEST_CASE("SGD gives what LibTorch's fused step gives, with and without nesterov") {
    for (const bool nesterov : {true, false}) {
        Set ours, theirs;
        const OptimizerOptions options{.weight_decay = 1e-3, .nesterov = nesterov};
        const auto optimizer = make_sgd(ours.parameters, options);
        std::vector<torch::Tensor> b;
        for (const Parameter& parameter : theirs.parameters) {
            b.push_back(at::zeros_like(parameter.value.detach()));
        }
        for (int t = 0; t < kSteps; ++t) {
            ours.gradients(t);
            theirs.gradients(t);
            optimizer->step(rate_of(t), 1);
            const torch::NoGradGuard no_grad;
            for (std::size_t i = 0; i < 2; ++i) {
                const Parameter& p = theirs.parameters[i];
                at::_fused_sgd_({p.value}, {p.value.grad()}, {b[i]},
                                p.decay ? options.weight_decay : 0, 0.9, rate_of(t), 0, nesterov,
                                false, t == 0);
            }
        }
        for (std::size_t i = 0; i < 2; ++i) {
            CHECK(difference(ours.parameters[i].value, theirs.parameters[i].value) < 2e-6);
        }
    }
}

TEST_CASE("a step does not depend on the number of threads") {
    std::vector<torch::Tensor> results;
    for (const int threads : {1, 2}) {
        at::set_num_threads(threads);
        Set ours;
        const auto optimizer = make_adamw(ours.parameters, kOptions);
        for (int t = 0; t < 3; ++t) {
            ours.gradients(t);
            optimizer->step(0.01, 0.5);
        }
        results.push_back(ours.parameters[0].value);
    }
    CHECK(at::equal(results[0], results[1]));
}

TEST_CASE("state that is written into an optimizer continues as if never interrupted") {
    Set first, second;
    const auto a = make_adamw(first.parameters, kOptions);
    for (int t = 0; t < 3; ++t) {
        first.gradients(t);
        a->step(0.01, 1);
    }
    const auto b = make_adamw(second.parameters, kOptions);
    {
        const torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < first.parameters.size(); ++i) {
            second.parameters[i].value.copy_(first.parameters[i].value);
        }
        const auto from = a->state(), into = b->state();
        CHECK(from[0].first == "exp_avg.weight");
        CHECK(from[3].first == "exp_avg_sq.weight");
        for (std::size_t i = 0; i < from.size(); ++i) {
            torch::Tensor target = into[i].second;
            target.copy_(from[i].second);
        }
        b->set_steps(a->steps());
    }
    first.gradients(3);
    second.gradients(3);
    a->step(0.01, 1);
    b->step(0.01, 1);
    CHECK(at::equal(first.parameters[0].value, second.parameters[0].value));
}

TEST_CASE("a parameter of another type is refused by name") {
    CHECK_THROWS_WITH_AS(make_adamw({{"half", at::zeros({2}, at::kHalf).requires_grad_(true)}}, {}),
                         "parameter \"half\" is Half; the optimizer takes contiguous float32",
                         Failure);
}

TEST_CASE("sums of squares stay finite where a float's square would not") {
    const std::vector<float> x(37, 1e25F);
    CHECK(sum_of_squares(x.data(), 37) == doctest::Approx(37e50));
}
