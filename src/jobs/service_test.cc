// SPDX-License-Identifier: Apache-2.0
// JobService with a database in a temporary folder and the fake engine. Waits are for other threads
// and bounded.
#include "base/error.h"
#include "base/text.h"
#include "tests/support/jobs_world.h"

#include <algorithm>
#include <thread>

using namespace ty;
using namespace ty::jobs;
using namespace ty::jobs::testing;
using plan::Outcome;
using plan::Phase;

namespace {

plan::Finished finished(Outcome::Kind kind = Outcome::Kind::completed) {
    return {{kind, "", {}}, true};
}

}  // namespace

TEST_CASE("a job is durable before anything is started, and its agent gets a complete plan") {
    World world;
    const Job made = world.create("First");
    CHECK(made.status == Status::in_progress);
    CHECK(made.document == "{\"doc\":1}");
    const auto who = world.agent(0);
    CHECK(who.job_name == "First");
    const plan::NodePlan plan = world.service->plan_for(who);
    CHECK(plan.job_name == "First");
    CHECK(plan.host == "algo-1");
    CHECK(plan.endpoint == "http://127.0.0.1:9");
    CHECK(plan.stream == "First/algo-1-1762116564");
    CHECK(plan.credentials.access_key == "KEY-" + made.attempts.back().id.str());
    CHECK(plan.hyperparameters == plan::Pairs{{"b", "1"}, {"a", "2"}});
    CHECK(world.service->attempt_credentials(plan.credentials.access_key).has_value());
}

TEST_CASE("events move the job once however often they are sent, and the end releases it") {
    World world;
    world.create("Runs");
    const auto who = world.agent(0);
    CHECK(
        world.send(who, {plan::AgentUp{}, plan::PhaseChanged{Phase::training, ""}}).acknowledged ==
        2);
    const std::int64_t version = world.job("Runs").version;
    CHECK(
        world.send(who, {plan::AgentUp{}, plan::PhaseChanged{Phase::uploading, ""}}).acknowledged ==
        2);
    CHECK(world.job("Runs").secondary() == Secondary::training);
    CHECK(world.job("Runs").version >= version);
    const plan::SyncReply reply = world.send(who, {finished()}, 3);
    CHECK(reply.acknowledged == 3);
    CHECK(reply.gone);
    CHECK(world.job("Runs").status == Status::completed);
    world.engine->lose(who.attempt, "algo-1", "exit code 0");  // it ends by itself
    CHECK(world.engine->wait_released(1, Deadline::in(seconds(20))));
    CHECK(world.eventually("Runs", [](const Job& j) { return j.attempts.back().released; }));
    CHECK(world.service->counters().completed == 1);
    const Deadline by = Deadline::in(seconds(20));
    while (world.service->authenticate(world.token(0)) && !by.passed())
        sys::pause(Deadline::in(milliseconds(1)), {});
    CHECK_FALSE(world.service->authenticate(world.token(0)).has_value());
    CHECK(world.service->counters().running == 0);
}

TEST_CASE("an agent that stays after its end is given a little time and then killed") {
    World world;
    world.service.reset();
    world.placing.exit_grace = milliseconds(30);
    world.start();
    world.create("Lingers");
    world.send(world.agent(0), {finished()});
    CHECK(world.engine->wait_released(1, Deadline::in(seconds(20))));
}

TEST_CASE("tokens of others are refused") {
    World world;
    world.create("Mine");
    const std::string good = world.token(0);
    CHECK(world.service->authenticate(good).has_value());
    CHECK_FALSE(world.service->authenticate("").has_value());
    CHECK_FALSE(world.service->authenticate(good + "0").has_value());
    std::string other = good;
    other.replace(other.find("algo-1"), 6, "algo-2");
    CHECK_FALSE(world.service->authenticate(other).has_value());
    CHECK_FALSE(world.service->authenticate(std::string(10'000, '/')).has_value());
    auto who = world.agent(0);
    plan::SyncRequest request;
    request.host = "algo-2";
    CHECK_THROWS_AS(world.service->sync(who, request, {}), Error);
}

TEST_CASE("names are unique without case, but a repeated request gets its job back") {
    World world;
    const Job made = world.create("Name", 1, "invocation-1");
    CHECK(world.create("Name", 1, "invocation-1").id == made.id);
    for (const char* key : {"", "invocation-2"}) {
        try {
            world.create("NAME", 1, key);
            FAIL("created twice");
        } catch (const Error& error) {
            CHECK(error.code() == Code::conflict);
            CHECK(error.reason() == "ResourceInUse");
            CHECK(error.message().find("training-job/name)") != std::string::npos);
        }
    }
    CHECK(world.service->counters().created == 1);
}

TEST_CASE("a stop reaches an agent whose sync is held open") {
    World world;
    world.create("Held");
    const auto who = world.agent(0);
    world.send(who, {plan::PhaseChanged{Phase::training, ""}});
    plan::SyncReply reply;
    {
        std::jthread held([&] {
            plan::SyncRequest request;
            request.host = "algo-1";
            request.wait = milliseconds(50'000);
            reply = world.service->sync(who, request, {});
        });
        world.service->request_stop("us-east-1", "held");
    }
    REQUIRE(reply.command.has_value());
    CHECK(reply.command_number == 1);
    CHECK(std::get<plan::Stop>(*reply.command).grace == seconds(7));
    CHECK(world.job("Held").status == Status::stopping);
    world.service->request_stop("us-east-1", "Held");  // idempotent
    plan::SyncRequest seen;
    seen.host = "algo-1";
    seen.commands_seen = 1;
    CHECK_FALSE(world.service->sync(who, seen, {}).command.has_value());
    world.send(who, {finished(Outcome::Kind::stopped)}, 2);
    CHECK(world.job("Held").status == Status::stopped);
    try {
        world.service->request_stop("us-east-1", "Held");
        FAIL("stopped twice");
    } catch (const Error& error) {
        CHECK(error.message() ==
              "The request was rejected because the training job is in status Stopped");
    }
}

TEST_CASE("a held sync ends at its deadline and when the server stops") {
    World world;
    world.create("Quiet");
    const auto who = world.agent(0);
    plan::SyncRequest request;
    request.host = "algo-1";
    request.wait = milliseconds(10);
    CHECK_FALSE(world.service->sync(who, request, {}).gone);
    request.wait = milliseconds(50'000);
    std::stop_source stop;
    stop.request_stop();
    CHECK_FALSE(world.service->sync(who, request, stop.get_token()).gone);
}

TEST_CASE("more jobs than slots wait their turn, first come first served") {
    World world;
    for (const char* name : {"a", "b", "c", "d"}) world.create(name);
    CHECK(world.job("c").transitions.back().message ==
          "Waiting for a free slot: 2 jobs are running");
    REQUIRE(world.engine->wait_launched(2, Deadline::in(seconds(20))));
    const auto first = world.agent(0);
    CHECK(first.job_name == "a");
    world.send(first, {finished()});
    world.engine->lose(first.attempt, "algo-1", "exit code 0");
    REQUIRE(world.engine->wait_launched(3, Deadline::in(seconds(20))));
    CHECK(world.agent(2).job_name == "c");
    CHECK(world.engine->launched().size() == 3);
    world.service->request_stop("us-east-1", "d");  // never started
    CHECK(world.job("d").status == Status::stopped);
    CHECK(world.service->counters().running == 2);
}

TEST_CASE("a lost agent fails the job; an engine that refuses does so with its reason") {
    World world;
    world.create("Lost");
    const auto who = world.agent(0);
    world.send(who, {plan::PhaseChanged{Phase::training, ""}});
    world.engine->lose(who.attempt, "algo-1", "SIGKILL (signal 9)");
    REQUIRE(world.terminal("Lost"));
    CHECK(world.job("Lost").failure_reason.find("(SIGKILL (signal 9))") != std::string::npos);
    world.engine->fail_next_launch("no processes left");
    world.create("Refused");
    REQUIRE(world.terminal("Refused"));
    CHECK(world.job("Refused").failure_reason ==
          "InternalServerError: the agents could not be started: no processes left");
}

TEST_CASE("a restarted service adopts running jobs, launches waiting ones and misses no death") {
    World world;
    for (const char* name : {"keeps", "dies", "waits"}) world.create(name);
    const auto keeps = world.agent(0);
    const auto dies = world.agent(1);
    const std::string token = world.token(0);
    world.send(keeps, {plan::PhaseChanged{Phase::training, ""}});
    world.send(dies, {plan::PhaseChanged{Phase::training, ""}});
    REQUIRE(world.eventually("dies", [](const Job& j) { return j.attempts.back().launched; }));
    world.service.reset();
    world.engine->lose(dies.attempt, "algo-1", "SIGKILL (signal 9)");
    world.start();
    const auto again = world.service->authenticate(token);  // the same token still holds
    REQUIRE(again.has_value());
    CHECK(world.service->attempt_credentials("KEY-" + keeps.attempt.str()).has_value());
    REQUIRE(world.terminal("dies"));
    CHECK(world.job("keeps").secondary() == Secondary::training);
    REQUIRE(world.engine->wait_launched(3, Deadline::in(seconds(20))));
    CHECK(world.agent(2).job_name == "waits");
    CHECK(world.send(*again, {plan::PhaseChanged{Phase::training, ""}}).acknowledged == 1);
    CHECK(world.send(*again, {finished()}, 2).gone);
    CHECK(world.job("keeps").status == Status::completed);
}

TEST_CASE("an agent nobody knows a job for is released at start; a vanished one fails its job") {
    World world;
    world.create("Vanished");
    const auto who = world.agent(0);
    world.send(who, {plan::PhaseChanged{Phase::training, ""}});
    world.service.reset();
    world.engine = std::make_unique<engine::FakeEngine>();  // the machine was restarted
    engine::Placement unknown;
    unknown.attempt = AttemptId("j-unknown.1");
    unknown.agents = {{"algo-1", "", ""}};
    world.engine->launch(unknown);
    world.start();
    REQUIRE(world.terminal("Vanished"));
    CHECK(world.job("Vanished").status == Status::failed);
    REQUIRE(world.engine->wait_released(2, Deadline::in(seconds(20))));
    CHECK(world.engine->list().empty());
}

TEST_CASE("a job that ended while its release was not done is released after a restart") {
    World world;
    world.service.reset();
    world.placing.exit_grace = seconds(600);
    world.start();
    world.create("Ended");
    world.send(world.agent(0), {finished()});
    world.service.reset();
    world.placing.exit_grace = milliseconds(1);
    CHECK(world.engine->released().empty());
    world.start();
    CHECK(world.engine->wait_released(1, Deadline::in(seconds(20))));
}

TEST_CASE("documents and tags change, and go with the job") {
    World world;
    const Job made =
        world.service->create(World::spec("Tagged"), "{}", {{"k", "v"}, {"a", "b"}}, "");
    const std::string& arn = made.spec.arn;
    CHECK(world.service->list_tags(arn).at(0).key == "k");
    world.service->add_tags(arn, {{"k", "w"}, {"z", "1"}});
    CHECK(world.service->list_tags(arn).at(0).value == "w");
    CHECK(world.service->list_tags(arn).size() == 3);
    world.service->delete_tags(arn, {"a", "absent"});
    CHECK(world.service->list_tags(arn).size() == 2);
    std::vector<Tag> many;
    for (int i = 0; i < 49; ++i) many.push_back({fmt::format("t{}", i), ""});
    CHECK_THROWS_AS(world.service->add_tags(arn, many), Error);
    CHECK(world.service->list_tags(arn).size() == 2);

    world.service->update_document("us-east-1", "Tagged", "{\"new\":1}");
    CHECK(world.job("Tagged").document == "{\"new\":1}");
    CHECK_THROWS_AS(world.service->remove("us-east-1", "Tagged"), Error);
    world.send(world.agent(0), {finished()});
    world.service->remove("us-east-1", "Tagged");
    CHECK_FALSE(world.service->find("us-east-1", "Tagged").has_value());
    CHECK(world.service->list_tags(arn).empty());
    CHECK_THROWS_AS(world.service->remove("us-east-1", "Tagged"), Error);
    world.create("Tagged");  // the name is free again
}

TEST_CASE("listeners hear of every change") {
    World world;
    Sync<std::vector<std::string>> heard;
    world.service->on_change([&](const Job& job) {
        heard.with(
            [&](std::vector<std::string>& list) { list.emplace_back(to_string(job.secondary())); });
        heard.notify();
    });
    world.create("Loud");
    world.send(world.agent(0), {plan::PhaseChanged{Phase::training, ""}, finished()});
    const auto complete = [](const std::vector<std::string>& list) {
        return std::ranges::find(list, "Completed") != list.end();
    };
    CHECK(heard.wait(Deadline::in(seconds(20)), {}, complete, complete));
    world.service.reset();
}

TEST_CASE("many clients at once create, move and read jobs without losing one") {
    World world;
    world.service.reset();
    world.placing.max_running = 1000;
    world.start();
    constexpr int kThreads = 4;
    constexpr int kEach = 25;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&world, t] {
                for (int i = 0; i < kEach; ++i) {
                    const std::string name = fmt::format("job-{}-{}", t, i);
                    const Job job = world.create(name);
                    const AttemptId attempt = job.attempts.back().id;
                    const JobService::AgentIdentity who{attempt, "algo-1", "us-east-1", name};
                    world.send(who, {plan::PhaseChanged{Phase::training, ""}});
                    world.job(name);
                    if (i % 3 == 0) world.service->request_stop("us-east-1", name);
                    world.send(who, {finished()}, 2);
                    world.engine->lose(attempt, "algo-1", "exit code 0");
                }
            });
        }
    }
    CHECK(world.engine->wait_released(kThreads * kEach, Deadline::in(seconds(30))));
    int completed = 0;
    for (const Job& job : world.service->all("us-east-1", 0, 1000)) {
        CHECK(is_terminal(job.status));
        completed += job.status == Status::completed ? 1 : 0;
    }
    CHECK(completed == kThreads * (kEach - 9));
    CHECK(world.service->counters().running == 0);
}
