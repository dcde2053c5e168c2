// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/model.h"

#include "common/base/random.h"
#include "common/files/unpack.h"
#include "masked-lm/purposes.h"
#include "transformer/start.h"

#include <ATen/ATen.h>

namespace alg {

namespace {

EncoderConfig ernie() {
    EncoderConfig config;
    config.vocabulary = 18000;
    config.positions = 513;
    config.activation = Activation::relu;
    config.norm_epsilon = 1e-5;
    return config;
}

at::Tensor tensor_of(const std::vector<std::int64_t>& numbers, torch::Device device) {
    return at::tensor(numbers, at::kLong).to(device);
}

std::uint64_t weights_key(std::uint64_t seed, int part) {
    return key_of(seed, Purpose::weights, part);
}

}  // namespace

EncoderConfig shape_of(const Options& options, const Inputs& inputs,
                       const std::optional<Vocabulary>& vocabulary) {
    EncoderConfig config = ernie();
    if (!inputs.config.empty()) config = read_encoder_config(inputs.config, config);
    const auto set = [](std::int64_t& value, std::int64_t given) {
        if (given > 0) value = given;
    };
    if (options.hidden_size > 0 && options.hidden_size != config.hidden)
        config.intermediate = 4 * options.hidden_size;
    set(config.hidden, options.hidden_size);
    set(config.intermediate, options.intermediate_size);
    set(config.layers, options.num_hidden_layers);
    set(config.heads, options.num_attention_heads);
    set(config.positions, options.max_position_embeddings);
    set(config.types, options.type_vocab_size);
    if (options.hidden_act == "relu") config.activation = Activation::relu;
    if (options.hidden_act == "gelu") config.activation = Activation::gelu;
    if (options.dropout >= 0) config.dropout = config.attention_dropout = options.dropout;
    if (options.vocab_size > 0)
        config.vocabulary = options.vocab_size;
    else if (vocabulary && inputs.config.empty())
        config.vocabulary = std::max<std::int64_t>(config.vocabulary, vocabulary->size());

    if (vocabulary && vocabulary->size() > config.vocabulary)
        fail("{} has ids up to {}, the model's vocab_size is {}; correct vocab_size or {}",
             inputs.vocabulary.string(), vocabulary->size() - 1, config.vocabulary,
             inputs.config.empty() ? "the vocabulary" : inputs.config.string());
    if (config.hidden % config.heads != 0)
        fail("hidden_size {} is not a multiple of num_attention_heads {}", config.hidden,
             config.heads);
    if (options.max_seq_len > config.positions)
        fail(
            "max_seq_len {} is beyond the model's {} positions; lower it or raise "
            "max_position_embeddings",
            options.max_seq_len, config.positions);
    if (config.types > kMostTypes)
        fail("type_vocab_size {} is beyond the {} sentence ids a file can have", config.types,
             kMostTypes);
    return config;
}

MaskedLm::MaskedLm(const EncoderConfig& config, bool weight_sharing, std::uint64_t seed)
    : weight_sharing_(weight_sharing),
      encoder_(config, weights_key(seed, 0)),
      pooler_(config.hidden, config.initializer_range, weights_key(seed, 1)),
      follows_(config.hidden, 2, config.initializer_range, weights_key(seed, 2)),
      words_(config, weight_sharing ? encoder_.word_embedding() : torch::Tensor(),
             weights_key(seed, 3)) {
    child("bert", encoder_);
    child("bert.pooler", pooler_);
    child("cls.predictions", words_);
    child("cls.seq_relationship", follows_);
}

torch::Tensor MaskedLm::encode(const Batch& batch, const Packed& shape, torch::Device device,
                               Pass& pass) const {
    return encoder_.forward({.tokens = tensor_of(batch.tokens, device),
                             .types = tensor_of(batch.types, device),
                             .positions = tensor_of(batch.positions, device),
                             .shape = shape},
                            pass);
}

Losses MaskedLm::losses(const Batch& batch, torch::Device device, Pass& pass) const {
    Losses result;
    if (batch.samples() == 0) return result;
    const Packed shape = packed(batch.lengths);
    const torch::Tensor encoded = encode(batch, shape, device, pass);
    const CrossEntropy follows = cross_entropy_sum(
        follows_.forward(pooler_.forward(encoded, shape)), tensor_of(batch.follows, device));
    result.follows = follows.sum;
    result.follows_correct = follows.correct;
    if (batch.selected.empty()) return result;
    const CrossEntropy words =
        words_.loss(encoded.index_select(0, tensor_of(batch.selected, device)),
                    tensor_of(batch.labels, device));
    result.words = words.sum;
    result.words_correct = words.correct;
    return result;
}

MaskedLm::Logits MaskedLm::logits(const Batch& batch, torch::Device device) const {
    Pass pass;
    const Packed shape = packed(batch.lengths);
    const torch::Tensor encoded = encode(batch, shape, device, pass);
    return {words_.forward(encoded), follows_.forward(pooler_.forward(encoded, shape))};
}

void start_from(const MaskedLm& model, const fs::path& weights) {
    std::error_code ignored;
    const fs::path inside = weights / "model.tar.gz";  // as SageMaker delivers an earlier result
    const fs::path archive = fs::is_directory(weights, ignored) ? inside : weights;
    std::optional<TemporaryFolder> unpacked;
    if (archive.extension() == ".gz" && fs::exists(archive, ignored))
        unpack_model(archive, unpacked.emplace().path());
    start_from(model.parameters(), read_weights(unpacked ? unpacked->path() : weights),
               weights.string());
}

}  // namespace alg
