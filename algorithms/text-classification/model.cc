// SPDX-License-Identifier: Apache-2.0
#include "text-classification/model.h"

#include "common/base/random.h"
#include "transformer/start.h"

#include <ATen/ATen.h>

namespace alg {

namespace {

std::uint64_t weights_key(std::uint64_t seed, int part) {
    return key_of(seed, Purpose::weights, part);
}

/// A size that the start decides may be repeated, but not changed.
void choose(std::int64_t& value, std::int64_t given, const char* name, const fs::path& start) {
    if (given <= 0) return;
    if (!start.empty() && given != value)
        fail("{}: {} given, but the model to start from has {} ({})", name, given, value,
             (start / "config.json").string());
    value = given;
}

}  // namespace

EncoderConfig shape_of(const Options& options, const fs::path& start,
                       const Vocabulary& vocabulary) {
    EncoderConfig config;
    config.vocabulary = vocabulary.size();
    if (!start.empty()) config = read_encoder_config(start / "config.json", config);
    choose(config.hidden, options.hidden_size, "hidden_size", start);
    if (start.empty()) config.intermediate = 4 * config.hidden;
    choose(config.intermediate, options.intermediate_size, "intermediate_size", start);
    choose(config.layers, options.num_hidden_layers, "num_hidden_layers", start);
    choose(config.heads, options.num_attention_heads, "num_attention_heads", start);
    choose(config.positions, options.max_position_embeddings, "max_position_embeddings", start);
    if (options.hidden_act != "configured")
        config.activation = options.hidden_act == "relu" ? Activation::relu : Activation::gelu;
    if (options.dropout >= 0) config.dropout = config.attention_dropout = options.dropout;

    if (vocabulary.size() > config.vocabulary)
        fail("the vocabulary has ids up to {}, the model to start from knows {} (vocab_size in {})",
             vocabulary.size() - 1, config.vocabulary, (start / "config.json").string());
    if (config.hidden % config.heads != 0)
        fail("hidden_size {} is not a multiple of num_attention_heads {}", config.hidden,
             config.heads);
    if (options.max_length > config.positions)
        fail("max_length {} is beyond the model's {} positions; lower it{}", options.max_length,
             config.positions, start.empty() ? " or raise max_position_embeddings" : "");
    return config;
}

Classifier::Classifier(const EncoderConfig& config, std::int64_t classes, std::uint64_t seed)
    : encoder_(config, weights_key(seed, 0)),
      pooler_(config.hidden, config.initializer_range, weights_key(seed, 1)),
      head_(config.hidden, classes, config.initializer_range, weights_key(seed, 2)) {
    child("bert", encoder_);
    child("bert.pooler", pooler_);
    child("classifier", head_);
}

torch::Tensor tensor_of(const std::vector<std::int64_t>& numbers, torch::Device device) {
    return at::tensor(numbers, at::kLong).to(device);
}

torch::Tensor Classifier::logits(const Batch& batch, torch::Device device, Pass& pass) const {
    const Packed shape = packed(batch.lengths);
    torch::Tensor types = tensor_of(batch.types, device);
    if (config().types < 2) types = at::zeros_like(types);
    const torch::Tensor encoded = encoder_.forward({.tokens = tensor_of(batch.tokens, device),
                                                    .types = types,
                                                    .positions = tensor_of(batch.positions, device),
                                                    .shape = shape},
                                                   pass);
    return head_.forward(dropout(pooler_.forward(encoded, shape), config().dropout, pass));
}

void start_from(const Classifier& model, const fs::path& folder, const std::string& name,
                bool speaks) {
    const std::vector<Parameter> parameters = model.parameters();
    NamedTensors weights = read_weights(folder);
    std::erase_if(weights, [&](const auto& found) {
        if (!found.first.starts_with("classifier.")) return false;
        for (const Parameter& parameter : parameters)
            if (parameter.name == found.first)
                return parameter.value.sizes() != found.second.sizes();
        return false;
    });
    start_from(parameters, weights, name, speaks);
}

}  // namespace alg
