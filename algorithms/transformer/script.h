// SPDX-License-Identifier: Apache-2.0
// The encoder and its heads as TorchScript: (input_ids, token_type_ids, attention_mask), padded,
// int64 [batch, length].
#pragma once

#include "common/export/script_model.h"
#include "transformer/encoder.h"

namespace alg {

/// forward(input_ids, token_type_ids=None, attention_mask=None, position_ids=None) -> hidden states
/// [batch, length, hidden].
ScriptModel script_encoder(const EncoderConfig& config, const NamedTensors& weights,
                           bool quantised);
/// forward(hidden states) -> pooled [batch, hidden].
ScriptModel script_pooler(const NamedTensors& weights, bool quantised);
ScriptModel script_linear_head(const NamedTensors& weights, bool quantised);
/// forward(hidden states) -> [batch, length, vocabulary].
ScriptModel script_masked_lm_head(const EncoderConfig& config, const NamedTensors& weights,
                                  const torch::Tensor& shared_embedding, bool quantised);

}  // namespace alg
