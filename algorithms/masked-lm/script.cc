// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/script.h"

#include "common/base/random.h"
#include "transformer/script.h"

#include <ATen/ATen.h>

namespace alg {

namespace {

constexpr const char* kForward = R"(
def forward(self, input_ids: Tensor, token_type_ids: Optional[Tensor] = None,
            attention_mask: Optional[Tensor] = None,
            position_ids: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    hidden = self.bert.forward(input_ids, token_type_ids, attention_mask, position_ids)
    return self.words.forward(hidden), self.follows.forward(self.pooler.forward(hidden))
)";

constexpr double kTolerance = 1e-4;

NamedTensors part(const NamedTensors& weights, const std::string& prefix) {
    NamedTensors result;
    for (const auto& [name, value] : weights)
        if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), value);
    return result;
}

/// Two samples of any tokens, of one length: no row is padding.
Batch any_batch(const EncoderConfig& config) {
    const std::int64_t length = std::min<std::int64_t>(config.positions, 24);
    Random random(1);
    Batch batch;
    for (int sample = 0; sample < 2; ++sample) {
        for (std::int64_t i = 0; i < length; ++i) {
            batch.tokens.push_back(static_cast<std::int64_t>(
                random.below(static_cast<std::uint64_t>(config.vocabulary))));
            batch.types.push_back(config.types > 1 && i > length / 2 ? 1 : 0);
            batch.positions.push_back(i);
        }
        batch.lengths.push_back(static_cast<std::int32_t>(length));
    }
    return batch;
}

}  // namespace

double write_script(const fs::path& file, const MaskedLm& model, const NamedTensors& weights,
                    bool quantised) {
    const at::NoGradGuard no_grad;
    const EncoderConfig& config = model.config();
    ScriptModel script(quantised ? "MaskedLmInt8" : "MaskedLm");
    script.child("bert", script_encoder(config, part(weights, "bert."), quantised));
    script.child("pooler", script_pooler(part(weights, "bert.pooler."), quantised));
    script.child("follows", script_linear_head(part(weights, "cls.seq_relationship."), quantised));
    torch::Tensor shared;
    if (model.weight_sharing())
        for (const auto& [name, value] : weights)
            if (name == "bert.embeddings.word_embeddings.weight") shared = value;
    script.child("words", script_masked_lm_head(config, part(weights, "cls.predictions."), shared,
                                                quantised));
    script.define(kForward);

    const Batch batch = any_batch(config);
    const std::int64_t length = batch.lengths[0];
    const MaskedLm::Logits logits = model.logits(batch, model.word_embedding().device());
    const std::vector<at::Tensor> expected = {
        logits.words.cpu().view({2, length, config.vocabulary}), logits.follows.cpu()};
    // Eight bits are rougher the larger the numbers are.
    const double tolerance =
        quantised ? 0.2 + 0.2 * expected[0].abs().max().item<double>() : kTolerance;
    const auto rows = [length](const std::vector<std::int64_t>& numbers) {
        return at::tensor(numbers, at::kLong).view({2, length});
    };
    return save_checked(script.module(), file, {rows(batch.tokens), rows(batch.types)}, expected,
                        tolerance);
}

}  // namespace alg
