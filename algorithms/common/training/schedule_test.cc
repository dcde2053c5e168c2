// SPDX-License-Identifier: Apache-2.0
#include "common/training/schedule.h"

#include <doctest/doctest.h>

using namespace alg;
using doctest::Approx;

TEST_CASE("the inverse square root schedule has the values of WeNet's WarmupLR") {
    const Schedule rate = warmup_inverse_sqrt(0.002, 25000);
    CHECK(rate(0) == Approx(8e-8).epsilon(1e-12));
    CHECK(rate(24999) == Approx(0.002).epsilon(1e-12));
    CHECK(rate(99999) == Approx(0.001).epsilon(1e-12));
    CHECK(warmup_inverse_sqrt(0.002, 0)(3) == Approx(0.001));
}

TEST_CASE("ERNIE's schedule warms up from 0 and decays as if measured from 0") {
    const Schedule rate = linear_warmup_decay(1e-4, 5000, 1000000);
    CHECK(rate(0) == 0);
    CHECK(rate(1) == Approx(2e-8).epsilon(1e-12));
    CHECK(rate(4999) == Approx(9.998e-5).epsilon(1e-12));
    CHECK(rate(5000) == Approx(9.95e-5).epsilon(1e-12));
    CHECK(rate(1000000) == 0);
    CHECK(rate(2000000) == 0);
    CHECK(linear_warmup_decay(1e-4, 10, 100, true)(0) == Approx(1e-5));
    CHECK(linear_warmup_decay(1e-4, 0, 30)(0) == Approx(1e-4));
}

TEST_CASE("the linear schedule has the values of Hugging Face's") {
    const Schedule rate = linear_schedule(5e-5, 10, 110);
    CHECK(rate(0) == 0);
    CHECK(rate(5) == Approx(2.5e-5));
    CHECK(rate(10) == Approx(5e-5));
    CHECK(rate(60) == Approx(2.5e-5));
    CHECK(rate(110) == 0);
    CHECK(rate(111) == 0);
    CHECK(linear_schedule(5e-5, 0, 100)(0) == Approx(5e-5));
}

TEST_CASE("noam, exponential and constant rates") {
    CHECK(noam(1, 768, 4000)(0) == Approx(1.4260979e-7).epsilon(1e-6));
    CHECK(noam(1, 768, 4000)(3999) == Approx(5.7054433e-4).epsilon(1e-4));
    CHECK(exponential(1.5e-4, 0.99, 10)(9) == 1.5e-4);
    CHECK(exponential(1.5e-4, 0.99, 10)(25) == Approx(1.5e-4 * 0.99 * 0.99));
    CHECK(constant_rate(0.1)(7) == 0.1);
}
