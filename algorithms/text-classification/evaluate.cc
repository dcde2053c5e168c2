// SPDX-License-Identifier: Apache-2.0
#include "text-classification/evaluate.h"

#include "common/data/plan.h"

#include <ATen/ATen.h>

#include <numeric>

namespace alg {

Confusion evaluate(const Classifier& model, const Dataset& dataset, std::size_t classes,
                   std::int64_t batch_size, const Device& where, Group& group) {
    const at::NoGradGuard no_grad;
    // Batches of like lengths: the time is that of the longest sample.
    Indices all(dataset.samples.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<Indices> batches =
        batched(sorted_in_pools(std::move(all), dataset.lengths, -1), dataset.lengths,
                Fill::samples, batch_size, false);
    Confusion result(classes);
    for (std::size_t i = static_cast<std::size_t>(group.rank()); i < batches.size();
         i += static_cast<std::size_t>(group.world())) {
        const Batch batch = make_batch(dataset, batches[i], 0);
        torch::Tensor logits;
        {
            const AutocastScope autocast(where.precision, where.device);
            Pass pass;
            logits = model.logits(batch, where.device, pass);
        }
        logits = logits.to(at::kCPU, at::kFloat);
        const torch::Tensor labels = tensor_of(batch.labels, at::kCPU);
        result.add_loss(cross_entropy_sum(logits, labels).sum.item<double>());
        const torch::Tensor predicted = logits.argmax(1);
        for (std::size_t sample = 0; sample < batch.labels.size(); ++sample)
            result.add(batch.labels[sample], predicted.data_ptr<std::int64_t>()[sample]);
    }
    group.sum(std::span<double>(result.numbers()));
    return result;
}

}  // namespace alg
