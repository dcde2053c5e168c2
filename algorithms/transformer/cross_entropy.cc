// SPDX-License-Identifier: Apache-2.0
// Cross entropy whose gradient is made in the forward pass, by the only pass over the logits.
#include "transformer/functions.h"

#include "common/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <numeric>

namespace alg::own {

namespace {

struct Sums {
    double loss = 0;
    std::int64_t correct = 0;
};

// Losses of rows; `gradient` (may be the logits themselves) gets theirs.
Sums losses(const torch::Tensor& logits, const torch::Tensor& labels,
            const torch::Tensor& class_weights, const torch::Tensor& gradient) {
    const std::int64_t rows = logits.size(0);
    const std::int64_t columns = logits.size(1);
    const auto* label = labels.const_data_ptr<std::int64_t>();
    for (std::int64_t r = 0; r < rows; ++r) {
        if (label[r] < -1 || label[r] >= columns) {
            fail("label {} is not one of {} classes", label[r], columns);
        }
    }
    const auto* weights = class_weights.defined() ? class_weights.const_data_ptr<float>() : nullptr;
    const auto* from = logits.const_data_ptr<float>();
    auto* to = gradient.data_ptr<float>();
    std::vector<float> loss(static_cast<std::size_t>(rows));
    std::atomic<std::int64_t> correct = 0;
    at::parallel_for(0, rows, (1 << 14) / std::max<std::int64_t>(columns, 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                         std::int64_t here = 0;
                         for (std::int64_t r = begin; r < end; ++r) {
                             float* const row = to + r * columns;
                             if (label[r] < 0) {
                                 std::fill_n(row, columns, 0.0F);
                                 continue;
                             }
                             const float weight = weights == nullptr ? 1.0F : weights[label[r]];
                             const RowLoss of_row = vector_kernels().cross_entropy(
                                 from + r * columns, row, columns, label[r], weight);
                             loss[static_cast<std::size_t>(r)] = of_row.loss;
                             here += of_row.correct ? 1 : 0;
                         }
                         correct += here;
                     });
    return {std::accumulate(loss.begin(), loss.end(), 0.0), correct};
}

torch::Tensor scalar(double value) {
    return at::full({}, value, at::kFloat);
}

struct LossOf : torch::autograd::Function<LossOf> {
    static Variable forward(AutogradContext* context, const Variable& logits,
                            const torch::Tensor& labels,
                            const std::optional<Variable>& class_weights, std::int64_t* correct) {
        const torch::Tensor gradient = at::empty_like(logits);
        const Sums sums = losses(logits, labels, class_weights.value_or(Variable()), gradient);
        *correct = sums.correct;
        context->save_for_backward({gradient});
        return scalar(sums.loss);
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        return {context->get_saved_variables()[0] * grads[0], {}, {}, {}};
    }
};

// The last layer and its loss: the logits' memory becomes their gradient's.
struct AffineLossOf : torch::autograd::Function<AffineLossOf> {
    static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                            const Variable& bias, const torch::Tensor& labels,
                            std::int64_t* correct) {
        const torch::Tensor logits = times_transposed(x, weight, bias);
        const Sums sums = losses(logits, labels, {}, logits);
        *correct = sums.correct;
        context->save_for_backward({x, weight, logits});
        return scalar(sums.loss);
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        const torch::Tensor& gradient = saved[2];
        // The factor goes to the small operands instead of the logits.
        return {times(gradient, saved[1]).mul_(grads[0]),
                transposed_times(gradient, saved[0] * grads[0]),
                column_sums(gradient).mul_(grads[0]),
                {},
                {}};
    }
};

}  // namespace

CrossEntropy cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& labels,
                               const torch::Tensor& class_weights) {
    CrossEntropy result;
    const torch::Tensor weights =
        class_weights.defined() ? class_weights.to(at::kFloat).contiguous() : class_weights;
    result.sum =
        LossOf::apply(logits.contiguous(), labels.contiguous(), optional(weights), &result.correct);
    return result;
}

CrossEntropy affine_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& labels) {
    CrossEntropy result;
    result.sum =
        AffineLossOf::apply(x.contiguous(), weight, bias, labels.contiguous(), &result.correct);
    return result;
}

}  // namespace alg::own
