// SPDX-License-Identifier: Apache-2.0
#include "common/data/prefetch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>

using namespace alg;

TEST_CASE("items come in order, whichever thread is faster") {
    Prefetch<std::int64_t> prefetch(5, 2005, 4, 16, [](std::int64_t number) {
        for (int spin = 0; spin < (number % 7) * 300; ++spin)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        return number;
    });
    for (std::int64_t number = 5; number < 2005; ++number) CHECK(prefetch.next() == number);
    CHECK(prefetch.next() == std::nullopt);
    CHECK(prefetch.next() == std::nullopt);
}

TEST_CASE("nothing between first and last is nothing") {
    Prefetch<int> prefetch(3, 3, 2, 2, [](std::int64_t) { return 1; });
    CHECK(prefetch.next() == std::nullopt);
}

TEST_CASE("at most `ahead` items are made before they are asked for") {
    for (const int ahead : {0, 1, 3, 8}) {
        std::atomic<std::int64_t> asked = 0, too_early = 0;
        Prefetch<std::int64_t> prefetch(0, 300, 4, ahead, [&](std::int64_t number) {
            if (number >= asked + std::max(ahead, 1)) ++too_early;
            return number;
        });
        for (std::int64_t number = 0; number < 300; ++number) {
            asked = number + 1;  // before next(): the count may be high, never low
            CHECK(prefetch.next() == number);
        }
        CHECK(too_early == 0);
    }
}

TEST_CASE("without anybody asking it stops after `ahead` items") {
    std::atomic<int> made = 0;
    std::latch three(3);
    {
        Prefetch<int> prefetch(0, 100, 2, 3, [&](std::int64_t) {
            ++made;
            three.count_down();
            return 0;
        });
        three.wait();
    }  // a fourth would have been started by now or never
    CHECK(made == 3);
}

TEST_CASE("an exception is thrown where its item would have come, and the next ones still come") {
    Prefetch<int> prefetch(0, 5, 2, 4, [](std::int64_t number) {
        if (number == 2) throw std::runtime_error("item 2");
        return static_cast<int>(number);
    });
    CHECK(prefetch.next() == 0);
    CHECK(prefetch.next() == 1);
    CHECK_THROWS_WITH(prefetch.next(), "item 2");
    CHECK(prefetch.next() == 3);
    CHECK(prefetch.next() == 4);
    CHECK(prefetch.next() == std::nullopt);
}

TEST_CASE("it can be left at any moment") {
    for (int trial = 0; trial < 200; ++trial) {
        Prefetch<std::unique_ptr<int>> prefetch(0, 1000, 3, 5, [](std::int64_t number) {
            return std::make_unique<int>(static_cast<int>(number));
        });
        for (int taken = 0; taken < trial % 11; ++taken) CHECK(*prefetch.next().value() == taken);
    }
}
