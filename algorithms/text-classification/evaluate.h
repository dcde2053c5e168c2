// SPDX-License-Identifier: Apache-2.0
// The model's answers to a whole set of samples.
#pragma once

#include "common/training/distributed.h"
#include "common/training/precision.h"
#include "text-classification/model.h"
#include "text-classification/scores.h"

namespace alg {

struct Device {
    torch::Device device = torch::kCPU;
    Precision precision = Precision::float32;
};

/// Every sample once, shared by the processes, without dropout and class weights; the same result
/// on all of them. A collective call over `group`.
Confusion evaluate(const Classifier& model, const Dataset& dataset, std::size_t classes,
                   std::int64_t batch_size, const Device& where, Group& group);

}  // namespace alg
