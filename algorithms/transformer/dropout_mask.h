// SPDX-License-Identifier: Apache-2.0
// Dropout's mask of one use in a pass, also as a composition of ATen's operations.
#pragma once

#include "common/training/module.h"
#include "transformer/keep.h"

namespace alg {

struct DropoutMask : Keep {
    /// Takes the pass's next site, whether or not dropout applies.
    static DropoutMask of(double p, Pass& pass);
    /// at() of every number in an int64 tensor, float32, on its device.
    torch::Tensor of_numbers(const torch::Tensor& numbers) const;
};

}  // namespace alg
