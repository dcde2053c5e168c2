// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD with Nesterov momentum: one fused pass over each parameter that also applies the
// clipping factor and the inverse loss scale.
#pragma once

#include "common/training/module.h"

#include <memory>

namespace alg {

struct OptimizerOptions {
    double weight_decay = 0.01;  ///< decoupled; only for parameters with decay
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< AdamW
    double momentum = 0.9;                              ///< SGD
    bool nesterov = true;
};

class Optimizer {
public:
    virtual ~Optimizer() = default;
    /// p <- update(p, grad * gradient_scale). Gradients are left as they are (on CUDA LibTorch's
    /// steps leave them scaled); none counts as zeros. `rate`: learning rate of this step.
    virtual void step(double rate, double gradient_scale) = 0;
    /// Names and tensors of its state ("exp_avg.<parameter>", …), live: copying them saves it,
    /// writing into them restores it. The tensors exist from construction on.
    virtual std::vector<std::pair<std::string, torch::Tensor>> state() const = 0;
    virtual std::int64_t steps() const = 0;
    virtual void set_steps(std::int64_t steps) = 0;
};

/// Same results as torch.optim.AdamW / SGD(nesterov) in Python within rounding (SGD's weight decay
/// is PyTorch's, added to the gradient). Our own pass, because it measures faster than LibTorch's
/// fused step with several threads and takes clipping along; README.md has the figures.
std::unique_ptr<Optimizer> make_adamw(std::vector<Parameter> parameters,
                                      const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_sgd(std::vector<Parameter> parameters,
                                    const OptimizerOptions& options);

}  // namespace alg
