// SPDX-License-Identifier: Apache-2.0
#include "text-classification/scores.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace alg;

namespace {

Confusion of(std::size_t classes, const std::vector<std::pair<int, int>>& pairs) {
    Confusion result(classes);
    for (const auto& [truth, predicted] : pairs) result.add(truth, predicted);
    return result;
}

}  // namespace

TEST_CASE("two classes: f1 is class 1's, as scikit-learn's") {
    // y_true 1 1 1 0 0, y_pred 1 0 1 1 0
    Confusion c = of(2, {{1, 1}, {1, 0}, {1, 1}, {0, 1}, {0, 0}});
    c.add_loss(2.5);
    CHECK(c.samples() == 5);
    CHECK(c.accuracy() == doctest::Approx(0.6));
    CHECK(c.precision(1) == doctest::Approx(2.0 / 3));
    CHECK(c.recall(1) == doctest::Approx(2.0 / 3));
    CHECK(c.f1() == doctest::Approx(2.0 / 3));
    CHECK(c.macro_f1() == doctest::Approx((2.0 / 3 + 0.5) / 2));
    CHECK(c.loss() == doctest::Approx(0.5));
}

TEST_CASE("more classes: f1 is the mean, and a class nobody has counts 0") {
    const Confusion c = of(3, {{0, 0}, {1, 0}, {1, 1}});
    CHECK(c.f1(2) == 0);
    CHECK(c.precision(2) == 0);
    CHECK(c.f1() == doctest::Approx((2.0 / 3 + 2.0 / 3 + 0) / 3));
}

TEST_CASE("nothing at all is no division by zero") {
    CHECK(Confusion(2).accuracy() == 0);
    CHECK(Confusion(2).loss() == 0);
    CHECK(Confusion(2).f1() == 0);
}

TEST_CASE("numbers of several processes add up, and all is told in JSON") {
    Confusion a = of(2, {{0, 0}, {0, 1}}), b = of(2, {{1, 1}});
    for (std::size_t i = 0; i < a.numbers().size(); ++i) a.numbers()[i] += b.numbers()[i];
    const nlohmann::json json = to_json(a, {"neg", "pos"});
    CHECK(json["confusion_matrix"].dump() == "[[1,1],[0,1]]");
    CHECK(json["samples"] == 3);
    CHECK(json["classes"][1]["label"] == "pos");
    CHECK(python_number(1) == "1.0");
    CHECK(python_number(0) == "0.0");
    CHECK(python_number(0.8275) == "0.8275");
}
