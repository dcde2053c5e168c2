// SPDX-License-Identifier: Apache-2.0
#include "common/training/module.h"

#include "common/base/error.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

using namespace alg;

namespace {

struct Layer : Module {
    torch::Tensor& weight;
    torch::Tensor& bias;
    explicit Layer(torch::Tensor shared = {})
        : weight(parameter("weight", shared.defined() ? shared : normal({3, 2}, 1, 7))),
          bias(parameter("bias", at::zeros({3}), false)) {}
};

struct Net : Module {
    torch::Tensor& scale;
    Layer first, second;
    Net() : scale(parameter("scale", at::ones({1}))), second(first.weight) {
        child("first", first);
        child("second", second);
    }
};

std::string message_of(const std::vector<Parameter>& into,
                       const std::vector<std::pair<std::string, torch::Tensor>>& from) {
    try {
        load_parameters(into, from, "x.pt");
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "";
}

}  // namespace

TEST_CASE("parameters have dotted names in order and a shared one is listed once") {
    const Net net;
    std::vector<std::string> names;
    for (const Parameter& parameter : net.parameters()) {
        names.push_back(parameter.name);
        CHECK(parameter.value.requires_grad());
        CHECK(parameter.value.is_leaf());
    }
    CHECK(names == std::vector<std::string>{"scale", "first.weight", "first.bias", "second.bias"});
    CHECK(net.parameter_count() == 1 + 6 + 3 + 3);
    CHECK_FALSE(net.parameters()[2].decay);
}

TEST_CASE("loading names every problem and then changes nothing") {
    const Net net;
    const auto parameters = net.parameters();
    const std::string message = message_of(parameters, {{"scale", at::full({1}, 5)},
                                                        {"first.weight", at::zeros({2, 3})},
                                                        {"second.bias", at::zeros({3})},
                                                        {"pooler", at::zeros({1})}});
    CHECK(message.find("\"first.weight\" has the shape [2, 3], the model needs [3, 2]") !=
          std::string::npos);
    CHECK(message.find("\"first.bias\" is missing") != std::string::npos);
    CHECK(message.find("\"pooler\" is no parameter") != std::string::npos);
    CHECK(net.scale.item<float>() == 1);
}

TEST_CASE("loading converts half precision and reports what was allowed to differ") {
    const Net net;
    const LoadReport report = load_parameters(
        net.parameters(), {{"scale", at::full({1}, 5, at::kHalf)}, {"pooler", at::zeros({1})}},
        "x.pt", {.allow_missing = true, .allow_extra = true});
    CHECK(net.scale.item<float>() == 5);
    CHECK(report.missing.size() == 3);
    CHECK(report.extra == std::vector<std::string>{"pooler"});
}

TEST_CASE("first values depend on the key alone and have the moments of their distribution") {
    const torch::Tensor a = truncated_normal({1000, 101}, 0.02, 42);
    at::set_num_threads(1);
    CHECK(at::equal(a, truncated_normal({1000, 101}, 0.02, 42)));
    at::set_num_threads(2);
    CHECK(at::equal(a, truncated_normal({1000, 101}, 0.02, 42)));
    CHECK_FALSE(at::equal(a, truncated_normal({1000, 101}, 0.02, 43)));
    CHECK(a.abs().max().item<float>() <= 0.04F);
    CHECK(a.mean().item<double>() == doctest::Approx(0).scale(1).epsilon(3e-4));
    // A normal distribution cut at two deviations keeps 0.8796 of its deviation.
    CHECK(a.std().item<double>() == doctest::Approx(0.02 * 0.8796).epsilon(0.01));
    const torch::Tensor b = normal({100001}, 2, 1);
    CHECK(b.std().item<double>() == doctest::Approx(2).epsilon(0.01));
    CHECK(b.abs().max().item<float>() > 6);
}
