// SPDX-License-Identifier: Apache-2.0
#include "common/training/machine.h"

#include "common/base/error.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>

using namespace alg;

TEST_CASE("threads are OMP_NUM_THREADS or this process's share") {
    const char* const before = std::getenv("OMP_NUM_THREADS");
    const std::string saved = before == nullptr ? "" : before;
    ::setenv("OMP_NUM_THREADS", "3,1", 1);
    CHECK(threads_for({}) == 3);
    ::setenv("OMP_NUM_THREADS", "many", 1);
    CHECK_THROWS_AS(threads_for({}), Failure);
    ::setenv("OMP_NUM_THREADS", "0", 1);
    CHECK_THROWS_AS(threads_for({}), Failure);
    ::unsetenv("OMP_NUM_THREADS");
    const int alone = threads_for({});
    CHECK(alone >= 1);
    Place crowded;
    crowded.local_world = 1 << 20;
    CHECK(threads_for(crowded) == 1);
    if (!saved.empty()) ::setenv("OMP_NUM_THREADS", saved.c_str(), 1);
}

TEST_CASE("the machine is measured in a blink") {
    CHECK_THROWS_AS(prepare_machine({}, "tpu"), Failure);
    const auto start = std::chrono::steady_clock::now();
    const Machine machine = prepare_machine({}, "cpu");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));  // busy machines
    CHECK(machine.device.is_cpu());
    CHECK(machine.gflops > 0);
    CHECK(machine.text().starts_with("device CPU, "));
}
