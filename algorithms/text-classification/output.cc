// SPDX-License-Identifier: Apache-2.0
#include "text-classification/output.h"

#include "common/base/config_groups.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/files/atomic_file.h"
#include "transformer/script.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

namespace alg {

namespace {

constexpr const char* kForward = R"(
def forward(self, input_ids: Tensor, token_type_ids: Optional[Tensor] = None,
            attention_mask: Optional[Tensor] = None,
            position_ids: Optional[Tensor] = None) -> Tensor:
    hidden = self.bert.forward(input_ids, token_type_ids, attention_mask, position_ids)
    return self.classifier.forward(self.pooler.forward(hidden))
)";

constexpr double kTolerance = 1e-4;

NamedTensors part(const NamedTensors& weights, const std::string& prefix) {
    NamedTensors result;
    for (const auto& [name, value] : weights)
        if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), value);
    return result;
}

/// Samples of any tokens and of three lengths, padded.
struct Trial {
    Batch batch;
    torch::Tensor ids, types, mask;
};
Trial any_batch(const EncoderConfig& config) {
    const std::int64_t longest = std::min<std::int64_t>(config.positions, 24);
    Random random(1);
    Trial trial{.ids = at::zeros({3, longest}, at::kLong),
                .types = at::zeros({3, longest}, at::kLong),
                .mask = at::zeros({3, longest}, at::kLong)};
    for (std::int64_t sample = 0; sample < 3; ++sample) {
        const std::int64_t length = std::max<std::int64_t>(longest - 7 * sample, 1);
        for (std::int64_t i = 0; i < length; ++i) {
            const auto token = static_cast<std::int64_t>(
                random.below(static_cast<std::uint64_t>(config.vocabulary)));
            const std::int64_t type = config.types > 1 && i > length / 2 ? 1 : 0;
            trial.batch.tokens.push_back(token);
            trial.batch.types.push_back(type);
            trial.batch.positions.push_back(i);
            trial.ids[sample][i] = token;
            trial.types[sample][i] = type;
            trial.mask[sample][i] = 1;
        }
        trial.batch.lengths.push_back(static_cast<std::int32_t>(length));
    }
    return trial;
}

/// Largest difference from the model's answers.
double write_script(const fs::path& file, const Classifier& model, const NamedTensors& weights,
                    bool quantised) {
    const at::NoGradGuard no_grad;
    ScriptModel script(quantised ? "TextClassifierInt8" : "TextClassifier");
    script.child("bert", script_encoder(model.config(), part(weights, "bert."), quantised));
    script.child("pooler", script_pooler(part(weights, "bert.pooler."), quantised));
    script.child("classifier", script_linear_head(part(weights, "classifier."), quantised));
    script.define(kForward);
    const Trial trial = any_batch(model.config());
    Pass pass;
    const torch::Tensor expected = model.logits(trial.batch, model.device(), pass).cpu();
    // Eight bits are rougher the larger the numbers are.
    const double tolerance =
        quantised ? 0.2 + 0.2 * expected.abs().max().item<double>() : kTolerance;
    return save_checked(script.module(), file, {trial.ids, trial.types, trial.mask}, {expected},
                        tolerance);
}

void write_json(const fs::path& file, const nlohmann::json& json) {
    write_text_atomically(file, json.dump(2) + "\n");
}

nlohmann::json description(const Outcome& outcome) {
    nlohmann::json config = hugging_face_config(outcome.model.config());
    config["architectures"] = {"BertForSequenceClassification"};
    config["problem_type"] = "single_label_classification";
    for (std::size_t i = 0; i < outcome.labels.size(); ++i) {
        config["id2label"][std::to_string(i)] = outcome.labels[i];
        config["label2id"][outcome.labels[i]] = i;
    }
    if (const std::int32_t pad = outcome.tokenizer.vocabulary().id("[PAD]"); pad >= 0)
        config["pad_token_id"] = pad;
    return config;
}

nlohmann::json tokenizer_settings(const Outcome& outcome) {
    const WordPieceOptions& options = outcome.tokenizer.options();
    nlohmann::json settings = {{"tokenizer_class", "BertTokenizer"},
                               {"do_lower_case", options.lower_case},
                               {"tokenize_chinese_chars", options.split_chinese},
                               {"strip_accents", nullptr},
                               {"model_max_length", outcome.max_length}};
    for (const auto& [name, token] : {std::pair{"unk_token", "[UNK]"},
                                      {"cls_token", "[CLS]"},
                                      {"sep_token", "[SEP]"},
                                      {"pad_token", "[PAD]"},
                                      {"mask_token", "[MASK]"}})
        settings[name] = token;
    return settings;
}

}  // namespace

void write_model(const fs::path& folder, const Outcome& outcome) {
    std::error_code error;
    fs::create_directories(folder, error);
    NamedTensors weights = to_hugging_face(outcome.model.parameters());
    for (auto& [name, value] : weights) value = value.cpu();
    write_json(folder / "config.json", description(outcome));
    write_json(folder / "tokenizer_config.json", tokenizer_settings(outcome));
    write_text_atomically(folder / "config.yaml", to_yaml(outcome.values));
    write_atomically(folder / "vocab.txt",
                     [&](const fs::path& to) { outcome.tokenizer.vocabulary().write(to); });
    write_safetensors(folder / "model.safetensors", weights, {{"format", "pt"}});
    Dictionary state;
    for (const auto& [name, value] : weights) state.emplace_back(name, value);
    write_torch(folder / "checkpoint.pt", std::move(state));
    const double difference = write_script(folder / "model.ts", outcome.model, weights, false);
    say("model.ts: as the model within {:.2g}", difference);
    if (outcome.int8) {
        const double lost = write_script(folder / "model_int8.ts", outcome.model, weights, true);
        say("model_int8.ts: as the model within {:.2g}", lost);
    }
    say("model in {}", folder.string());
}

}  // namespace alg
