// SPDX-License-Identifier: Apache-2.0
// The trained model as TorchScript.
#pragma once

#include "masked-lm/model.h"

namespace alg {

/// forward(input_ids, token_type_ids=None, attention_mask=None, position_ids=None) -> (logits of
/// the words [batch, length, vocabulary], logits of the next-sentence head [batch, 2]: 0 no, 1
/// yes). Saves, loads it again and compares with `model`; throws Failure when they differ too much.
/// Returns the difference. `weights`: the model's by Hugging Face's names, on the CPU.
double write_script(const fs::path& file, const MaskedLm& model, const NamedTensors& weights,
                    bool quantised);

}  // namespace alg
