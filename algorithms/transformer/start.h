// SPDX-License-Identifier: Apache-2.0
// Starting from the weights of an earlier training, ours or Hugging Face's.
#pragma once

#include "common/files/tensors.h"
#include "common/training/module.h"

namespace alg {

/// Loads those of `weights` (under Hugging Face's names or ours) that the model has. Says, if
/// `speaks`, what was found, what is new and what is left over. Throws Failure when nothing fits,
/// or when a shape differs (both shapes). `name`: of the file or folder, for the reader.
void start_from(const std::vector<Parameter>& parameters, const NamedTensors& weights,
                const std::string& name, bool speaks = true);

}  // namespace alg
