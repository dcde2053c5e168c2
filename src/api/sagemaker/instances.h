// SPDX-License-Identifier: Apache-2.0
// Which accelerators an instance type promises, read from its name: families tell GPU from Neuron,
// sizes tell how many.
#pragma once

#include <string_view>

namespace ty::api::sagemaker {

enum class Accelerator { none, gpu, neuron };

struct Accelerators {
    Accelerator kind = Accelerator::none;
    int count = 0;
    bool operator==(const Accelerators&) const = default;
};

/// "ml.p3.8xlarge" -> four GPUs. A GPU family of a size nobody knows counts as one.
Accelerators accelerators_of(std::string_view instance_type);

}  // namespace ty::api::sagemaker
