// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"
#include "base/error.h"
#include "engine/fake/fake.h"

#include <doctest/doctest.h>

#include <set>

using namespace ty;
using namespace ty::engine;

TEST_CASE("every training instance type of the model is known once, with its resources") {
    const auto names = instance_type_names();
    CHECK(names.size() == 146);
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    for (const std::string& name : names) {
        const InstanceType* type = find_instance_type(name);
        REQUIRE(type != nullptr);
        CHECK(type->cpus >= 1);
        const bool accelerated =
            name.starts_with("ml.p") || name.starts_with("ml.g") || name.starts_with("ml.trn");
        CHECK_MESSAGE((type->gpus > 0) == accelerated, name);
    }
    CHECK(find_instance_type("ml.p3.16xlarge")->gpus == 8);
    CHECK(find_instance_type("ml.c5.9xlarge")->cpus == 36);
    CHECK(find_instance_type("ml.m5.large")->cpus == 2);
    CHECK(find_instance_type("local")->gpus == 0);
    CHECK(find_instance_type("ml.p3") == nullptr);
}

TEST_CASE("the fake engine launches once, reports a loss and forgets on release") {
    FakeEngine fake;
    std::string told;
    fake.on_gone([&told](const Allocation& a) { told = a.host + " " + a.ending; });
    Placement placement;
    placement.attempt = AttemptId("a.1");
    placement.agents = {{"algo-1", "u", "t"}, {"algo-2", "u", "t"}};
    fake.launch(placement);
    fake.launch(placement);
    CHECK(fake.launched().size() == 1);
    CHECK(fake.list().size() == 2);
    fake.lose(AttemptId("a.1"), "algo-2", "exit code 1");
    CHECK(told == "algo-2 exit code 1");
    CHECK(fake.list().at(1).state == AgentState::gone);
    fake.release(AttemptId("a.1"));
    CHECK(fake.list().empty());
    CHECK(fake.nodes_released().empty());
    fake.fail_next_launch("no room");
    CHECK_THROWS_AS(fake.launch(placement), Error);
    fake.launch(placement);
    CHECK(fake.wait_launched(2, Deadline::in(seconds(1))));
}

TEST_CASE("the fake engine adds agents to an attempt, kills and releases them one by one") {
    FakeEngine fake;
    std::string told;
    fake.on_gone([&told](const Allocation& a) { told = a.host + " " + a.ending; });
    Placement placement;
    placement.attempt = AttemptId("a.1");
    placement.agents = {{"algo-1", "u", "t"}};
    placement.network = Network{4, "{}"};
    fake.launch(placement);
    placement.agents = {{"algo-1", "u", "t"}, {"algo-2", "u", "t"}};
    fake.launch(placement);
    CHECK(fake.launched().size() == 2);
    CHECK(fake.list().size() == 3);  // with the network
    fake.kill(AttemptId("a.1"), "algo-2");
    CHECK(told == "algo-2 SIGKILL (signal 9)");
    told.clear();
    fake.kill(AttemptId("a.1"), "algo-2");
    CHECK(told.empty());
    fake.release(AttemptId("a.1"), "algo-2");
    CHECK(fake.nodes_released() == std::vector<std::string>{"a.1/algo-2"});
    CHECK(fake.list().size() == 2);
    fake.lose(AttemptId("a.1"), kNetworkHost, "SIGKILL (signal 9)");
    CHECK(told == "network SIGKILL (signal 9)");
}
