// SPDX-License-Identifier: Apache-2.0
// JobService with jobs of many nodes: plans, commands, attempts, and a service that is restarted in
// the middle of them.
#include "base/error.h"
#include "tests/support/jobs_world.h"

#include <algorithm>
#include <thread>

using namespace ty;
using namespace ty::jobs;
using namespace ty::jobs::testing;
using plan::Outcome;
using plan::Phase;

namespace {

plan::Finished finished(Outcome::Kind kind) {
    return {{kind, "", {}}, true};
}

JobSpec spot(const std::string& name, int hosts) {
    JobSpec spec = World::spec(name, hosts);
    spec.spot = true;
    return spec;
}

JobSpec elastic(const std::string& name, int hosts, int most) {
    JobSpec spec = World::spec(name, hosts);
    spec.node.elastic = plan::Elastic{1, most, 2, ""};
    return spec;
}

}  // namespace

TEST_CASE("every host of a job gets its own plan, and the hosts share a network") {
    World world;
    JobSpec spec = World::spec("Two", 2);
    spec.node.gpus = 2;
    spec.node.groups = {{"head", "ml.m5.large", {"algo-1"}}, {"tail", "ml.c5.xlarge", {"algo-2"}}};
    spec.node.limits.max_runtime = seconds(100);
    world.create(spec);
    const plan::NodePlan second = world.service->plan_for(world.node("Two", "algo-2"));
    CHECK(second.host == "algo-2");
    CHECK(second.hosts == std::vector<std::string>{"algo-1", "algo-2"});
    CHECK(second.instance_group == "tail");
    CHECK(second.instance_type == "ml.c5.xlarge");
    CHECK(second.groups.size() == 2);
    CHECK(second.attempt_number == 1);
    CHECK(second.stream == "Two/algo-2-1762116564");
    CHECK(second.limits.max_runtime == seconds(100));
    const engine::Placement placement = world.engine->launched().at(0);
    REQUIRE(placement.network.has_value());
    CHECK(placement.network->hosts == 2);
    CHECK(placement.network->rendezvous.empty());
    CHECK(placement.gpus == 2);
    CHECK(placement.agents.size() == 2);
    world.create("One");
    world.node("One", "algo-1");
    CHECK_FALSE(world.engine->launched().at(1).network.has_value());
}

TEST_CASE("an elastic job's network knows its range, and its nodes a secret that is not stored") {
    World world;
    world.create(elastic("Flex", 2, 4));
    const auto who = world.node("Flex", "algo-1");
    const plan::NodePlan plan = world.service->plan_for(who);
    REQUIRE(plan.elastic.has_value());
    CHECK(plan.elastic->token.size() == 64);
    const auto network = world.engine->launched().at(0).network;
    REQUIRE(network.has_value());
    CHECK(network->hosts == 4);
    CHECK(network->rendezvous ==
          fmt::format("{{\"run_id\":\"{}\",\"min_nodes\":1,\"max_nodes\":4,\"expected_nodes\":2,"
                      "\"max_restarts\":2,\"checkpoints\":false,\"token\":\"{}\"}}",
                      who.attempt.str(), plan.elastic->token));
    world.db.read([&](store::Tx& tx) {
        auto rows = tx.prepare("select state from job_state union all select node from job_spec");
        while (rows.step()) CHECK(rows.text(0).find(plan.elastic->token) == std::string::npos);
    });
    world.service->scale("us-east-1", "Flex", 3);
    const plan::NodePlan third = world.service->plan_for(world.node("Flex", "algo-3"));
    CHECK(third.hosts == std::vector<std::string>{"algo-1", "algo-2", "algo-3"});
    CHECK(third.stream != "Flex/algo-3-1762116564");
    CHECK(world.engine->launched().at(1).agents.size() == 1);
    world.engine->lose(who.attempt, "algo-1", "SIGKILL (signal 9)");
    const plan::NodePlan again = world.service->plan_for(world.node("Flex", "algo-1~2"));
    CHECK(again.host == "algo-1");
    CHECK(again.stream != plan.stream);
    CHECK(world.eventually(
        "Flex", [](const Job& job) { return !job.attempts.back().nodes.contains("algo-1"); }));
    CHECK(world.engine->nodes_released().size() == 1);
}

TEST_CASE("commands come one after the other, to a held sync at once, and again when not seen") {
    World world;
    world.create(World::spec("Told", 2));
    const auto who = world.node("Told", "algo-2");
    plan::SyncReply reply;
    {
        std::jthread held([&] {
            plan::SyncRequest request;
            request.host = "algo-2";
            request.wait = milliseconds(50'000);
            reply = world.service->sync(who, request, {});
        });
        world.service->inject("us-east-1", "Told",
                              {Fault::Kind::freeze, "algo-2", milliseconds(5), "x"});
    }
    REQUIRE(reply.command.has_value());
    CHECK(reply.command_number == 1);
    CHECK(std::get<plan::Freeze>(*reply.command).time == milliseconds(5));
    world.service->inject("us-east-1", "Told",
                          {Fault::Kind::partition, "algo-2", milliseconds(7), "x"});
    world.restart();
    CHECK(world.commands(who).size() == 2);
    CHECK(world.commands(world.node("Told", "algo-1")).empty());
    plan::SyncRequest request;
    request.host = "algo-2";
    request.commands_seen = 1;
    CHECK(world.service->sync(who, request, {}).command_number == 2);
    request.commands_seen = 99;
    CHECK_FALSE(world.service->sync(who, request, {}).command.has_value());
}

TEST_CASE("an interrupted job goes on under another attempt with its own secrets and stream") {
    World world;
    JobSpec spec = spot("Again", 1);
    spec.node.limits.max_runtime = seconds(100);
    world.create(spec);
    const auto first = world.node("Again", "algo-1");
    const plan::NodePlan before = world.service->plan_for(first);
    world.send(first, {plan::PhaseChanged{Phase::training, ""}});
    world.clock.advance(seconds(30));
    world.engine->lose(first.attempt, "algo-1", "SIGKILL (signal 9)");
    REQUIRE(world.attempt("Again", 2));
    const auto second = world.node("Again", "algo-1");
    const plan::NodePlan after = world.service->plan_for(second);
    CHECK(after.attempt_number == 2);
    CHECK(after.attempt != before.attempt);
    CHECK(after.stream == "Again/algo-1-1762116594");
    CHECK(after.limits.max_runtime == seconds(70));
    CHECK_FALSE(world.service->attempt_credentials(before.credentials.access_key).has_value());
    CHECK(world.service->attempt_credentials(after.credentials.access_key).has_value());
    CHECK_FALSE(world.service->authenticate(world.token(0)).has_value());
    CHECK(world.send(first, {finished(Outcome::Kind::completed)}, 2).gone);  // a ghost
    CHECK(world.job("Again").status == Status::in_progress);
    CHECK(world.service->counters().running == 1);
    world.send(second, {finished(Outcome::Kind::completed)});
    CHECK(world.job("Again").status == Status::completed);
    CHECK(world.service->counters().running == 0);
    CHECK(world.service->counters().completed == 1);
}

TEST_CASE("an interrupted job keeps its slot between its attempts") {
    World world;
    world.service.reset();
    world.placing.max_running = 1;
    world.placing.exit_grace = seconds(600);
    world.start();
    world.create(spot("Keeps", 1));
    world.create("Waits");
    const auto who = world.node("Keeps", "algo-1");
    world.service->inject("us-east-1", "Keeps", {Fault::Kind::notice, "", seconds(1), "x"});
    world.send(who, {finished(Outcome::Kind::interrupted)});
    world.restart();
    world.engine->lose(who.attempt, "algo-1", "exit code 0");
    REQUIRE(world.attempt("Keeps", 2));
    CHECK_FALSE(world.job("Waits").attempts.back().launched);
    const auto again = world.node("Keeps", "algo-1");
    world.send(again, {finished(Outcome::Kind::completed)});
    world.engine->lose(again.attempt, "algo-1", "exit code 0");
    CHECK(world.attempt("Waits", 1));
}

TEST_CASE("time alone moves a job: MaxWait, and a schedule of faults") {
    World world;
    JobSpec spec = spot("Late", 1);
    spec.max_wait = seconds(60);
    world.create(spec);
    const auto who = world.node("Late", "algo-1");
    world.send(who, {plan::PhaseChanged{Phase::training, ""}});
    FaultSchedule schedule;
    schedule.fault.kind = Fault::Kind::freeze;
    schedule.every = milliseconds(500);
    world.service->schedule_faults("us-east-1", "Late", schedule);
    world.clock.advance(seconds(20));
    CHECK(world.eventually("Late", [](const Job& job) {
        return !job.attempts.back().nodes.at("algo-1").commands.empty();
    }));
    world.service->schedule_faults("us-east-1", "Late", std::nullopt);
    world.restart();
    world.clock.advance(seconds(40));
    CHECK(world.eventually("Late", [](const Job& job) { return job.status == Status::stopping; }));
    world.send(who, {finished(Outcome::Kind::stopped)}, 2);
    CHECK(world.job("Late").secondary() == Secondary::max_wait_time_exceeded);
    schedule.every = milliseconds(1);
    world.create("Other");
    CHECK_THROWS_AS(world.service->schedule_faults("us-east-1", "Other", schedule), Error);
    schedule.every = seconds(1);
    schedule.fault.host = "algo-2";
    CHECK_THROWS_AS(world.service->schedule_faults("us-east-1", "Other", schedule), Error);
}

TEST_CASE("a service that is restarted before every step brings all jobs to their end") {
    World world;
    world.service.reset();
    world.placing.max_running = 3;
    world.placing.exit_grace = milliseconds(1);
    world.start();
    world.create(spot("Spot", 2));
    world.create(elastic("Flex", 2, 3));
    world.create("Plain");
    std::map<std::string, std::uint64_t> seq;
    const auto tell = [&](const JobService::AgentIdentity& who, plan::Payload payload) {
        world.send(who, {std::move(payload)}, ++seq[who.attempt.str() + who.host]);
        world.restart();
    };
    for (const char* name : {"Spot", "Flex"})
        for (const char* host : {"algo-1", "algo-2"})
            tell(world.node(name, host), plan::PhaseChanged{Phase::training, ""});
    for (const char* name : {"Spot", "Flex"}) {
        world.service->inject("us-east-1", name, {Fault::Kind::kill, "algo-2", seconds(0), "x"});
        world.restart();
    }
    REQUIRE(world.eventually("Spot", [](const Job& job) {
        return job.attempts.back().nodes.at("algo-1").commands.size() == 1;
    }));
    tell(world.node("Spot", "algo-1"), finished(Outcome::Kind::interrupted));
    REQUIRE(world.attempt("Spot", 2));
    world.restart();
    for (const char* host : {"algo-1", "algo-2"})
        tell(world.node("Spot", host), finished(Outcome::Kind::completed));
    CHECK(world.job("Spot").status == Status::completed);
    tell(world.node("Flex", "algo-2~2"), plan::PhaseChanged{Phase::training, ""});
    tell(world.node("Flex", "algo-1"), plan::Collected{true, false});
    tell(world.node("Flex", "algo-2~2"), plan::Collected{true, false});
    REQUIRE(world.commands(world.node("Flex", "algo-1")).size() == 1);
    tell(world.node("Flex", "algo-1"), finished(Outcome::Kind::completed));
    tell(world.node("Flex", "algo-2~2"), finished(Outcome::Kind::completed));
    CHECK(world.job("Flex").status == Status::completed);
    tell(world.node("Plain", "algo-1"), finished(Outcome::Kind::completed));
    for (const char* name : {"Spot", "Flex", "Plain"})
        CHECK(world.eventually(name, [](const Job& j) { return j.attempts.back().released; }));
    CHECK(world.engine->list().empty());
}

TEST_CASE("a database of an earlier version opens and its running job goes on") {
    World world;
    world.create("Old");
    const auto who = world.node("Old", "algo-1");
    world.send(who, {plan::PhaseChanged{Phase::training, ""}});
    world.service.reset();
    world.db.write([&](store::Tx& tx) {
        auto state = tx.prepare("update job_state set state = ?1");
        state.bind(1,
                   "{\"transitions\":[{\"status\":\"Training\",\"start\":1762116564000,"
                   "\"message\":\"m\"}],\"training_start\":1762116564000,"
                   "\"stop_requested\":false,\"model_uploaded\":false,\"attempts\":[{\"id\":\"" +
                       who.attempt.str() +
                       "\",\"number\":1,\"seen\":{\"algo-1\":1},\"phases\":{\"algo-1\":2},"
                       "\"launched\":true,\"released\":false}]}");
        state.run();
        tx.execute(
            "update job_spec set node = replace(node, '{\"version\":2,', '{\"version\":1,')");
    });
    world.start();
    const Job job = world.job("Old");
    CHECK(job.instances == 1);
    CHECK(job.secondary() == Secondary::training);
    CHECK(world.service->plan_for(who).stream == "Old/algo-1-1762116564");
    CHECK(world.send(who, {finished(Outcome::Kind::completed)}, 2).gone);
    CHECK(world.job("Old").status == Status::completed);
}
