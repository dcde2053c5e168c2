// SPDX-License-Identifier: Apache-2.0
// In a world of one; ranks_test.cc has the others.
#include "common/training/updater.h"

#include <ATen/Functions.h>
#include <doctest/doctest.h>

#include <cmath>

using namespace alg;
using doctest::Approx;

namespace {

struct Setup {
    std::unique_ptr<Group> group = make_group({}, torch::kCPU, std::chrono::seconds(1));
    torch::Tensor value = at::full({2}, 1.0F).requires_grad_(true);
    std::vector<Parameter> parameters{{"value", value, false}};
    std::unique_ptr<Optimizer> optimizer = make_sgd(parameters, {.momentum = 0, .nesterov = false});
    Updater updater;
    explicit Setup(UpdateOptions options = {}, Schedule schedule = constant_rate(1))
        : updater(parameters, *optimizer, std::move(schedule), *group, options) {}
};

const float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("terms are means over all micro-batches, whatever their sizes") {
    Setup setup;
    const std::vector<std::vector<double>> counts{{2, 1}, {0, 0}, {6, 1}};
    setup.updater.begin(counts);
    setup.updater.backward({{setup.value.sum() * 4}, {setup.value.sum(), 0.5}});
    setup.updater.backward({{}, {}});
    setup.updater.backward({{setup.value.sum() * 12}, {setup.value.sum() * 3, 0.5}});
    int calls = 0;
    const UpdateResult result = setup.updater.finish([&calls] { ++calls; });
    CHECK(calls == 1);
    CHECK(result.means.at(0) == Approx(4));  // (8 + 24) / 8
    CHECK(result.means.at(1) == Approx(4));  // (2 + 6) / 2
    CHECK(result.loss == Approx(4 + 0.5 * 4));
    CHECK(result.norm == Approx(std::sqrt(2.0) * 3));  // 16 / 8 + 0.5 * 4 / 2 each
    CHECK(setup.value[0].item<float>() == Approx(1 - 3));
}

TEST_CASE("gradients above the norm are clipped as torch.nn.utils.clip_grad_norm_ does") {
    Setup setup({.clip_norm = 1});
    const std::vector<std::vector<double>> counts{{1}};
    setup.updater.begin(counts);
    setup.updater.backward({{(setup.value * at::tensor({3.0F, 4.0F})).sum()}});
    CHECK(setup.updater.finish().norm == Approx(5));
    CHECK(setup.value[0].item<float>() == Approx(1 - 0.6));
    CHECK(setup.value[1].item<float>() == Approx(1 - 0.8));
}

TEST_CASE("an update that is not finite changes nothing but the clock") {
    Setup setup({}, [](std::int64_t update) { return 0.1 * static_cast<double>(update); });
    const std::vector<std::vector<double>> counts{{1}};
    for (const bool in_loss : {true, false}) {
        setup.updater.begin(counts);
        // A loss of 0 with an infinite gradient, or a loss that is none.
        setup.updater.backward(
            {{in_loss ? (setup.value * kNan).sum() : (setup.value - 1).abs().pow(0.5).sum()}});
        int calls = 0;
        CHECK(setup.updater.finish([&calls] { ++calls; }).skipped);
        CHECK(calls == 0);
    }
    CHECK(setup.value[0].item<float>() == 1);
    CHECK(setup.updater.skipped() == 2);
    CHECK(setup.updater.updates() == 2);
    CHECK(setup.optimizer->steps() == 0);
    setup.updater.begin(counts);
    setup.updater.backward({{setup.value.sum()}});
    CHECK(setup.updater.finish().rate == Approx(0.2));
    CHECK(setup.value[0].item<float>() == Approx(0.8));
}

TEST_CASE("the loss scale is in the backward pass and nowhere else") {
    Setup setup({.precision = Precision::float16});
    const std::vector<std::vector<double>> counts{{1}};
    setup.updater.begin(counts);
    setup.updater.backward({{setup.value.sum()}});
    CHECK(setup.value.grad()[0].item<float>() == 102400);
    const UpdateResult result = setup.updater.finish();
    CHECK(result.loss == Approx(2));
    CHECK(result.norm == Approx(std::sqrt(2.0)));
    CHECK(setup.value[0].item<float>() == Approx(0).scale(1));
}

TEST_CASE("an update without anything to count is one with zero gradients") {
    Setup setup;
    const std::vector<std::vector<double>> counts{{0}};
    setup.updater.begin(counts);
    setup.updater.backward({{}});
    const UpdateResult result = setup.updater.finish();
    CHECK_FALSE(result.skipped);
    CHECK(result.loss == 0);
    CHECK(setup.value[0].item<float>() == 1);
}

TEST_CASE("calls out of order are programming errors") {
    Setup setup;
    CHECK_THROWS_AS(setup.updater.begin({}), std::logic_error);
    const std::vector<std::vector<double>> counts{{1}};
    setup.updater.begin(counts);
    CHECK_THROWS_AS(setup.updater.finish(), std::logic_error);
    CHECK_THROWS_AS(setup.updater.backward({{}, {}}), std::logic_error);
}
