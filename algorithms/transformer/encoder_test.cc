// SPDX-License-Identifier: Apache-2.0
// The encoder as a whole: gradients against finite differences, what packing must not change,
// weights' names, shapes read from files, exported models.
#include "common/base/error.h"
#include "transformer/script.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

using namespace alg;

namespace {

EncoderConfig small() {
    EncoderConfig c;
    c.vocabulary = 31;
    c.hidden = 24;
    c.layers = 2;
    c.heads = 3;
    c.intermediate = 40;
    c.positions = 16;
    c.initializer_range = 0.3;
    return c;
}

EncoderInput batch(const std::vector<std::int32_t>& lengths) {
    EncoderInput input;
    input.shape = packed(lengths);
    const std::int64_t tokens = input.shape.tokens();
    input.tokens = at::arange(tokens).mul(7).remainder(31);
    input.types = at::arange(tokens).remainder(2);
    input.positions = at::arange(tokens).remainder(16);
    return input;
}

Pass training() {
    Pass pass;
    pass.training = true;
    pass.key = 3;
    return pass;
}

fs::path file_with(const std::string& text) {
    const fs::path file = fs::temp_directory_path() / "alg_encoder_test.json";
    std::FILE* out = std::fopen(file.c_str(), "wb");
    REQUIRE(out != nullptr);
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
    return file;
}

}  // namespace

TEST_CASE("gradients of the encoder under dropout agree with finite differences") {
    EncoderConfig config = small();
    const Encoder encoder(config, 1);
    const EncoderInput input = batch({5, 1, 9});
    const torch::Tensor direction = alg::normal({15, config.hidden}, 1, 9);
    const auto value = [&] {
        Pass pass = training();
        return (encoder.forward(input, pass) * direction).sum();
    };
    value().backward();
    const at::NoGradGuard no_grad;
    for (const Parameter& p : encoder.parameters()) {
        CAPTURE(p.name);
        torch::Tensor x = p.value;
        const torch::Tensor along = p.value.grad() / (p.value.grad().norm() + 1e-6);
        const double step = 2e-3;
        x.add_(along, step);
        const double above = value().item<double>();
        x.add_(along, -2 * step);
        const double below = value().item<double>();
        x.add_(along, step);
        const double slope = (p.value.grad() * along).sum().item<double>();
        CHECK((above - below) / (2 * step) == doctest::Approx(slope).epsilon(0.02).scale(0.5));
    }
}

TEST_CASE("a sequence's result does not depend on its batch, and reruns are identical") {
    const Encoder encoder(small(), 1);
    const at::NoGradGuard no_grad;
    Pass pass;
    const torch::Tensor all = encoder.forward(batch({4, 7, 2}), pass);
    EncoderInput second = batch({4, 7, 2});
    second.shape = packed(std::vector<std::int32_t>{7});
    for (torch::Tensor* part : {&second.tokens, &second.types, &second.positions}) {
        *part = part->narrow(0, 4, 7);
    }
    CHECK(at::allclose(encoder.forward(second, pass), all.narrow(0, 4, 7), 1e-5, 1e-6));
    Pass once = training();
    Pass again = training();
    CHECK(at::equal(encoder.forward(batch({4, 7, 2}), once),
                    encoder.forward(batch({4, 7, 2}), again)));
    CHECK(encoder.forward(batch({}), pass).size(0) == 0);
}

TEST_CASE("under autocast products are bfloat16 and results float32") {
    const Encoder encoder(small(), 1);
    Pass pass;
    const torch::Tensor exact = encoder.forward(batch({4, 7, 2}), pass).detach();
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const torch::Tensor rough = encoder.forward(batch({4, 7, 2}), pass);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    CHECK((rough.scalar_type() == at::kFloat));
    CHECK(!at::equal(rough, exact));
    CHECK((rough - exact).abs().max().item<double>() < 0.15);
    rough.sum().backward();
    CHECK((encoder.parameters().front().value.grad().scalar_type() == at::kFloat));
}

TEST_CASE("padding and unpadding are each other's reverse") {
    const Packed shape = packed(std::vector<std::int32_t>{2, 0, 3});
    const torch::Tensor x = at::arange(10, at::kFloat).view({5, 2});
    const torch::Tensor padded = pad(x, shape, -1);
    CHECK((padded.sizes() == at::IntArrayRef({3, 3, 2})));
    CHECK(padded[0][2][0].item<float>() == -1);
    CHECK(at::equal(unpad(padded, shape), x));
}

TEST_CASE("weights by Hugging Face's names and back") {
    const Encoder encoder(small(), 1);
    std::vector<Parameter> parameters = encoder.parameters();
    for (Parameter& p : parameters) {
        p.name = "bert." + p.name;
    }
    NamedTensors theirs = to_hugging_face(parameters);
    CHECK(theirs.size() == 5 + 2 * 16);
    const auto same = [&](const NamedTensors& back) {
        REQUIRE(back.size() == parameters.size());
        for (const auto& [name, value] : back) {
            const auto p = std::find_if(parameters.begin(), parameters.end(),
                                        [&](const Parameter& q) { return q.name == name; });
            REQUIRE(p != parameters.end());
            CHECK(at::equal(p->value, value));
        }
    };
    same(from_hugging_face(theirs));

    NamedTensors older;
    for (auto [name, value] : theirs) {
        name.erase(0, 5);
        if (const auto at = name.find("LayerNorm.weight"); at != std::string::npos) {
            name.replace(at, 16, "LayerNorm.gamma");
        }
        older.emplace_back(name, value);
    }
    older.emplace_back("embeddings.position_ids", at::arange(16));
    older.emplace_back("cls.predictions.decoder.weight", theirs.front().second.clone());
    older.emplace_back("cls.predictions.decoder.bias", at::zeros({31}));
    same(from_hugging_face(older));

    std::erase_if(theirs, [](const auto& w) { return w.first.ends_with("self.key.weight"); });
    CHECK_THROWS_WITH_AS(from_hugging_face(theirs),
                         "weights have bert.encoder.layer.0.attention.self.query.weight but not "
                         "bert.encoder.layer.0.attention.self.key.weight",
                         Failure);
}

TEST_CASE("an encoder's shape is read from ERNIE's file, and all that is wrong with it named") {
    const EncoderConfig c = read_encoder_config(
        file_with(R"({"hidden_act": "relu", "hidden_size": 96, "num_attention_heads": 12,
                      "num_hidden_layers": 2, "vocab_size": 18000,
                      "max_position_embeddings": 513})"),
        EncoderConfig{});
    CHECK(c.intermediate == 384);
    CHECK(c.positions == 513);
    CHECK(c.activation == Activation::relu);
    const auto message = [](const std::string& text) -> std::string {
        try {
            read_encoder_config(file_with(text), EncoderConfig{});
        } catch (const Failure& failure) {
            return failure.what();
        }
        return "";
    };
    const std::string all = message(R"({"hidden_act": "selu", "hidden_size": 10, "vocab_size": "9",
                                        "num_hidden_layers": 2, "num_attention_heads": 3})");
    CHECK(all.find("alg_encoder_test.json: vocab_size is \"9\", not a whole number") !=
          std::string::npos);
    CHECK(all.find("hidden_act is \"selu\"") != std::string::npos);
    CHECK(all.find("hidden_size 10 is not a multiple of num_attention_heads 3") !=
          std::string::npos);
    CHECK(message("{}").find("hidden_size is missing") != std::string::npos);
    CHECK(message("[1").find("not a JSON object") != std::string::npos);
    fs::remove(file_with(""));
    CHECK_THROWS_AS(read_encoder_config("/nonexistent/config.json", EncoderConfig{}), Failure);
}

TEST_CASE("the exported encoder is the encoder, from fused weights or Hugging Face's") {
    const EncoderConfig config = small();
    const Encoder encoder(config, 1);
    const EncoderInput input = batch({6});
    Pass pass;
    const torch::Tensor expected = encoder.forward(input, pass).detach();
    NamedTensors fused;
    for (const Parameter& p : encoder.parameters()) {
        fused.emplace_back(p.name, p.value);
    }
    for (const NamedTensors& weights : {fused, to_hugging_face(encoder.parameters())}) {
        torch::jit::Module script = script_encoder(config, weights, false).module();
        const torch::Tensor out =
            script.forward({input.tokens.view({1, 6}), input.types.view({1, 6})}).toTensor();
        CHECK((out[0] - expected).abs().max().item<double>() < 1e-4);
    }
    fused.erase(fused.begin());
    CHECK_THROWS_WITH_AS(
        script_encoder(config, fused, false),
        "weights have no embeddings.word_embeddings.weight, which the exported model needs",
        Failure);
}
