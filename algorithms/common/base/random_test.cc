// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

using namespace alg;

TEST_CASE("keys depend on every part and on their order") {
    std::set<std::uint64_t> keys;
    for (std::uint64_t a = 0; a < 30; ++a)
        for (std::uint64_t b = 0; b < 30; ++b) keys.insert(key_of(1, a, b));
    CHECK(keys.size() == 900);
    static_assert(key_of(1, 2) == key_of(1, 2));
}

TEST_CASE("streams are the same wherever they run, and near each other's keys unlike") {
    Random a(1);
    const Random copy = a;
    CHECK(a() == Random(copy)());
    CHECK(a() != Random(copy)());
    double mean = 0, product = 0;
    for (std::uint64_t key = 0; key < 20000; ++key) {
        const float x = Random(key).uniform(), y = Random(key + 1).uniform();
        CHECK_UNARY(x >= 0 && x < 1);
        mean += x;
        product += (x - 0.5) * (y - 0.5);
    }
    CHECK(mean / 20000 == doctest::Approx(0.5).epsilon(0.02));
    CHECK(product / 20000 == doctest::Approx(0).epsilon(0.003));
}

TEST_CASE("below is uniform and a shuffle is a permutation of equal chances") {
    Random random(7);
    std::vector<int> counts(6);
    for (int i = 0; i < 60000; ++i) ++counts[random.below(6)];
    for (const int count : counts) CHECK(std::abs(count - 10000) < 400);  // over four deviations
    std::vector<int> first(5);
    for (std::uint64_t key = 0; key < 20000; ++key) {
        std::vector<int> order(5);
        std::iota(order.begin(), order.end(), 0);
        shuffle(order.begin(), order.end(), Random(key));
        ++first[static_cast<std::size_t>(order[0])];
        std::sort(order.begin(), order.end());
        REQUIRE(order == std::vector<int>{0, 1, 2, 3, 4});
    }
    for (const int count : first) CHECK(std::abs(count - 4000) < 300);
}
