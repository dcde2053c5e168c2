// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/output.h"

#include "common/base/config_groups.h"
#include "common/base/log.h"
#include "common/files/atomic_file.h"
#include "masked-lm/script.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cstring>

namespace alg {

namespace {

Value value_of(const nlohmann::json& json) {
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_integer()) return json.get<std::int64_t>();
    if (json.is_number()) return json.get<double>();
    if (json.is_string()) return json.get<std::string>();
    if (json.is_array()) {
        std::vector<Value> values;
        for (const auto& element : json) values.push_back(value_of(element));
        return values;
    }
    if (json.is_object()) {
        Dictionary values;
        for (const auto& [name, element] : json.items())
            values.emplace_back(name, value_of(element));
        return values;
    }
    return nullptr;
}

/// Copies without ATen's threads: this runs beside the training.
torch::Tensor copy_of(const torch::Tensor& value) {
    if (!value.is_cpu() || !value.is_contiguous()) return value.detach().cpu().clone();
    torch::Tensor copy = at::empty_like(value.detach());
    std::memcpy(copy.data_ptr(), value.data_ptr(), value.nbytes());
    return copy;
}

NamedTensors on_cpu(NamedTensors weights) {
    for (auto& [name, value] : weights) value = value.cpu();
    return weights;
}

}  // namespace

void write_weights(const fs::path& file, const NamedTensors& weights, const EncoderConfig& config,
                   std::int64_t step) {
    Dictionary model;
    for (const auto& [name, value] : weights) model.emplace_back(name, value);
    write_torch(file, Dictionary{{"model", std::move(model)},
                                 {"config", value_of(hugging_face_config(config))},
                                 {"step", step}});
}

void WeightSnapshots::start(const fs::path& file, std::int64_t step) {
    finish();
    std::promise<void> copied;
    copied_ = copied.get_future();
    thread_ = std::jthread([this, file, step, copied = std::move(copied)]() mutable {
        try {
            std::vector<Parameter> parameters = model_.parameters();
            for (Parameter& parameter : parameters) parameter.value = copy_of(parameter.value);
            copied.set_value();
            write_weights(file, to_hugging_face(parameters), model_.config(), step);
            say("saved {}", file.string());
        } catch (const std::exception& error) {
            warn("weights of step {} were not saved: {}", step, error.what());
        }
    });
}

void WeightSnapshots::before_step() {
    if (copied_.valid()) copied_.wait();
    copied_ = {};
}

void WeightSnapshots::finish() {
    if (thread_.joinable()) thread_.join();
    copied_ = {};
}

void write_model(const fs::path& folder, const MaskedLm& model,
                 const std::optional<Vocabulary>& vocabulary,
                 const std::map<std::string, std::string>& values, std::int64_t step, bool int8) {
    std::error_code error;
    fs::create_directories(folder, error);
    const EncoderConfig& config = model.config();
    const NamedTensors weights = on_cpu(to_hugging_face(model.parameters()));
    nlohmann::json description = hugging_face_config(config);
    description["architectures"] = {"BertForPreTraining"};
    description["tie_word_embeddings"] = model.weight_sharing();
    write_text_atomically(folder / "config.json", description.dump(2) + "\n");
    write_text_atomically(folder / "config.yaml", to_yaml(values));
    if (vocabulary)
        write_atomically(folder / "vocab.txt", [&](const fs::path& to) { vocabulary->write(to); });
    else
        warn("the train channel had no vocab.txt, so the model's folder has none");
    write_safetensors(folder / "model.safetensors", weights, {{"format", "pt"}});
    write_weights(folder / "ernie.pt", weights, config, step);
    const double difference = write_script(folder / "model.ts", model, weights, false);
    say("model.ts: as the model within {:.2g}", difference);
    if (int8) {
        const double lost = write_script(folder / "model_int8.ts", model, weights, true);
        say("model_int8.ts: as the model within {:.2g}", lost);
    }
    say("model in {}", folder.string());
}

}  // namespace alg
