// SPDX-License-Identifier: Apache-2.0
#include "transformer/compositions.h"

#include <ATen/ATen.h>

#include <cmath>

namespace alg::composition {

namespace {

torch::Tensor numbers(const torch::Tensor& like) {
    return at::arange(like.numel(), at::dtype(at::kLong).device(like.device())).view(like.sizes());
}

// bool, broadcastable to [sequences, heads, longest, longest]: true where query and key are real
// and the mask lets the one see the other.
torch::Tensor visible(const Packed& shape, const Mask& mask, torch::Device device) {
    const torch::Tensor place = at::arange(shape.longest, at::dtype(at::kLong).device(device));
    const torch::Tensor lengths = shape.offsets.diff().to(device);
    torch::Tensor seen =
        place.view({1, 1, 1, shape.longest}).lt(lengths.view({shape.sequences(), 1, 1, 1}));
    switch (mask.kind) {
        case Mask::Kind::all:
            break;
        case Mask::Kind::causal:
            seen = seen.logical_and(place.view({1, shape.longest}).le(place.view({-1, 1})));
            break;
        case Mask::Kind::dense: {
            const torch::Tensor dense = mask.dense.to(device);
            seen = seen.logical_and(dense.dim() == 3 ? dense.unsqueeze(1) : dense);
            break;
        }
    }
    return seen;
}

// The mask's number of query i, key j in head h: see kernels.h's attention.
torch::Tensor score_numbers(const Packed& shape, std::int64_t heads, torch::Device device) {
    const auto options = at::dtype(at::kLong).device(device);
    const std::int64_t pitch = (shape.longest + 31) / 32 * 32;
    const torch::Tensor place = at::arange(shape.longest, options);
    const torch::Tensor token =
        shape.offsets.narrow(0, 0, shape.sequences()).to(device).view({-1, 1, 1, 1}) +
        place.view({1, 1, -1, 1});
    const torch::Tensor head = at::arange(heads, options).view({1, -1, 1, 1});
    return (token * heads + head) * pitch + place.view({1, 1, 1, -1});
}

}  // namespace

torch::Tensor dropout(const torch::Tensor& x, const DropoutMask& mask) {
    return mask.active() ? x * mask.of_numbers(numbers(x)).to(x.scalar_type()) : x;
}

torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y,
                               const DropoutMask& mask, const torch::Tensor& scale,
                               const torch::Tensor& bias, double epsilon) {
    torch::Tensor sum = x.to(at::kFloat);
    if (y.defined()) {
        sum = sum + composition::dropout(y.to(at::kFloat), mask);
    }
    return at::layer_norm(sum, {sum.size(-1)}, scale, bias, epsilon);
}

torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation) {
    const torch::Tensor sum = x + bias.to(x.scalar_type());
    return activation == Activation::relu ? at::relu(sum) : at::gelu(sum);
}

torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads,
                        const Mask& mask, const DropoutMask& dropout) {
    const std::int64_t hidden = qkv.size(1) / 3;
    if (shape.tokens() == 0) {
        return qkv.narrow(1, 0, hidden);
    }
    const torch::Tensor parts =
        pad(qkv, shape).view({shape.sequences(), shape.longest, 3, heads, hidden / heads});
    const auto part = [&](std::int64_t i) { return parts.select(2, i).transpose(1, 2); };
    const double factor = 1 / std::sqrt(static_cast<double>(hidden / heads));
    const torch::Tensor scores =
        at::matmul(part(0), part(1).transpose(2, 3)).to(at::kFloat) * factor;
    // A finite minimum and zeros afterwards: rows that see nothing get zeros, and gradients stay
    // numbers.
    const torch::Tensor hidden_keys = visible(shape, mask, qkv.device()).logical_not();
    torch::Tensor weights =
        at::softmax(scores.masked_fill(hidden_keys, -1e30), -1).masked_fill(hidden_keys, 0);
    if (dropout.active()) {
        weights = weights * dropout.of_numbers(score_numbers(shape, heads, qkv.device()));
    }
    const torch::Tensor mixed = at::matmul(weights.to(qkv.scalar_type()), part(2));
    return unpad(mixed.transpose(1, 2).flatten(2), shape);
}

CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights) {
    const torch::Tensor scores = logits.to(at::kFloat);
    CrossEntropy result;
    result.sum =
        at::cross_entropy_loss(scores, labels, class_weights, at::Reduction::Sum, /*ignore=*/-1);
    if (labels.numel() > 0) {
        result.correct = scores.detach().argmax(1).eq(labels).sum().item<std::int64_t>();
    }
    return result;
}

}  // namespace alg::composition
