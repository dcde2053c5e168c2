// SPDX-License-Identifier: Apache-2.0
#include "common/training/precision.h"

#include "common/base/error.h"

#include <ATen/Functions.h>
#include <doctest/doctest.h>

using namespace alg;

TEST_CASE("precisions have names and a wrong one is answered with the choices") {
    CHECK((parse_precision("bf16") == Precision::bfloat16));
    CHECK_THROWS_WITH_AS(parse_precision("half"),
                         "precision \"half\" is unknown; use fp32, bf16 or fp16", Failure);
}

TEST_CASE("autocast lasts as long as its scope") {
    const torch::Tensor a = at::ones({2, 2});
    {
        const AutocastScope scope(Precision::bfloat16, torch::kCPU);
        CHECK((at::mm(a, a).scalar_type() == torch::kBFloat16));
    }
    {
        const AutocastScope scope(Precision::float32, torch::kCPU);
        CHECK((at::mm(a, a).scalar_type() == torch::kFloat));
    }
    CHECK((at::mm(a, a).scalar_type() == torch::kFloat));
}

TEST_CASE("the loss scale doubles after 100 good updates and shrinks after 2 bad ones in a row") {
    LossScale scale(Precision::float16);
    CHECK(scale.value() == 102400);
    for (int i = 0; i < 99; ++i) {
        scale.update(true);
    }
    CHECK(scale.value() == 102400);
    LossScale other(Precision::float16);
    other.restore(scale.save());
    other.update(true);
    CHECK(other.value() == 204800);
    other.update(false);
    other.update(true);
    other.update(false);
    CHECK(other.value() == 204800);
    other.update(false);
    CHECK(other.value() == doctest::Approx(163840));
}

TEST_CASE("without float16 the loss scale stays 1") {
    LossScale scale(Precision::bfloat16);
    scale.update(false);
    scale.update(false);
    scale.restore({5, 0, 0});
    CHECK(scale.value() == 1);
}
