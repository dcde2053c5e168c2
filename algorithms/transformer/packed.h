// SPDX-License-Identifier: Apache-2.0
// Sequences of different lengths without padding: tokens one after the other, and where each
// begins.
#pragma once

#include <torch/types.h>

#include <span>

namespace alg {

struct Packed {
    torch::Tensor offsets;  ///< int64 [sequences + 1], CPU: first token of each; the last is the
                            ///< number of tokens
    std::int64_t longest = 0;
    std::int64_t sequences() const { return offsets.defined() ? offsets.size(0) - 1 : 0; }
    std::int64_t tokens() const {
        return sequences() == 0 ? 0 : offsets.data_ptr<std::int64_t>()[sequences()];
    }
};
Packed packed(std::span<const std::int32_t> lengths);
/// [tokens, …] -> [sequences, longest, …] with `fill` where there is nothing; differentiable.
torch::Tensor pad(const torch::Tensor& tokens, const Packed& shape, double fill = 0);
/// The reverse.
torch::Tensor unpad(const torch::Tensor& padded, const Packed& shape);

}  // namespace alg
