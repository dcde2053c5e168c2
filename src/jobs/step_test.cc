// SPDX-License-Identifier: Apache-2.0
// The life of a job of fixed size with one attempt. Whole stories with exact texts are in
// tests/scenarios.
#include "base/text.h"
#include "jobs/jobs.h"
#include "jobs/rows.h"
#include "jobs/testing.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::jobs;
using namespace ty::jobs::testing;
using plan::Outcome;
using plan::Phase;

TEST_CASE("a job goes from Starting to Completed with the times AWS reports") {
    Story s;
    s.wait(5).tell(Placed{s.job.attempts.back().id});
    CHECK(s.job.transitions.back().message == "Preparing the instances for training");
    s.event(plan::AgentUp{1, "none"}).wait(10).phase(Phase::downloading).wait(1000);
    s.phase(Phase::training).wait(2500).phase(Phase::uploading).wait(500);
    CHECK_FALSE(s.job.training_seconds().has_value());
    s.finish(Outcome::Kind::completed);
    CHECK(s.path() == "Starting Downloading Training Uploading Completed");
    CHECK(s.job.status == Status::completed);
    CHECK(s.job.training_start == at(15));
    CHECK(s.job.training_end == at(4015));
    CHECK(s.job.training_seconds() == 4);
    CHECK(s.job.transitions.back().end == s.job.transitions.back().start);
    CHECK(s.job.model_uploaded);
    CHECK(s.has<Release>());
}

TEST_CASE("training time is never reported as zero") {
    Story s;
    s.phase(Phase::downloading).finish(Outcome::Kind::completed);
    CHECK(s.job.training_seconds() == 1);
}

TEST_CASE("progress of one phase replaces the message and opens no new entry") {
    Story s;
    s.phase(Phase::downloading).phase(Phase::downloading, "algo-1", "3 of 10 objects");
    CHECK(s.path() == "Starting Downloading");
    CHECK(s.job.transitions.back().message == "3 of 10 objects");
    s.phase(Phase::training).phase(Phase::downloading);  // no way back
    CHECK(s.path() == "Starting Downloading Training");
}

TEST_CASE("a repeated event changes nothing, not even the version") {
    Story s;
    s.phase(Phase::downloading);
    const Job before = s.job;
    const plan::Event again{1, at(0), "algo-1", plan::PhaseChanged{Phase::training, {}}};
    s.tell(AgentEvent{s.job.attempts.back().id, again});
    CHECK(s.job.version == before.version);
    CHECK(state_to_json(s.job) == state_to_json(before));
}

TEST_CASE("a stop before the agent began ends the job at once") {
    Story s;
    s.tell(Placed{s.job.attempts.back().id}).tell(StopRequested{});
    CHECK(s.path() == "Starting Stopped");
    CHECK(s.job.status == Status::stopped);
    CHECK(s.has<Release>());
}

TEST_CASE("a stop while training passes through Stopping and Uploading to Stopped") {
    Story s;
    s.phase(Phase::training).tell(StopRequested{});
    CHECK(s.job.status == Status::stopping);
    CHECK(s.has<Wake>());
    CHECK(wants_stop(s.job));
    s.tell(StopRequested{});
    CHECK(s.path() == "Starting Training Stopping");
    s.phase(Phase::uploading).finish(Outcome::Kind::stopped);
    CHECK(s.path() == "Starting Training Stopping Uploading Stopped");
    CHECK(s.job.failure_reason.empty());
    const std::int64_t version = s.job.version;
    s.tell(StopRequested{});
    CHECK(s.job.version == version);
}

TEST_CASE("a program that ended well while the stop was on its way still counts as stopped") {
    Story s;
    s.phase(Phase::training).tell(StopRequested{}).finish(Outcome::Kind::completed);
    CHECK(s.job.status == Status::stopped);
}

TEST_CASE("exceeding the runtime is Stopped with its own secondary status") {
    Story s;
    s.phase(Phase::training).phase(Phase::uploading).finish(Outcome::Kind::timed_out);
    CHECK(s.job.status == Status::stopped);
    CHECK(s.job.secondary() == Secondary::max_runtime_exceeded);
    CHECK(s.job.failure_reason.empty());
}

TEST_CASE("a failure carries the agent's reason, cut to 1024 characters between code points") {
    Story s;
    std::string reason = "AlgorithmError: ";
    for (int i = 0; i < 2000; ++i) reason += "\xc3\xa4";
    s.phase(Phase::training).finish(Outcome::Kind::failed, "algo-1", reason, 1);
    CHECK(s.job.status == Status::failed);
    CHECK(count_code_points(s.job.failure_reason) == 1024);
    CHECK(is_valid_utf8(s.job.failure_reason));
    Story bare;
    bare.finish(Outcome::Kind::failed, "algo-1", "", 3);
    CHECK(bare.job.failure_reason == "AlgorithmError: , exit code: 3");
}

TEST_CASE("an agent that vanished fails the job and says how it ended") {
    Story s;
    s.phase(Phase::training);
    s.tell(AgentGone{s.job.attempts.back().id, "algo-1", "SIGKILL (signal 9)"});
    CHECK(s.job.status == Status::failed);
    CHECK(s.job.failure_reason.starts_with(
        "InternalServerError: the agent on algo-1 ended unexpectedly (SIGKILL (signal 9)); "));
    CHECK(s.path() == "Starting Training Failed");
}

TEST_CASE("an agent that ends after it finished is no news") {
    Story s(2);
    s.finish(Outcome::Kind::completed);
    const std::int64_t version = s.job.version;
    s.tell(AgentGone{s.job.attempts.back().id, "algo-1", "exit code 0"});
    CHECK(s.job.version == version);
}

TEST_CASE("a launch that failed is our fault and says why") {
    Story s;
    s.tell(LaunchFailed{s.job.attempts.back().id, "run \"agent\": no such file"});
    CHECK(s.job.failure_reason ==
          "InternalServerError: the agents could not be started: run \"agent\": no such file");
    CHECK(s.job.status == Status::failed);
}

TEST_CASE("several hosts: the slowest sets the phase, the first failure the reason") {
    Story s(3);
    CHECK(hosts_of(s.job.spec) == std::vector<std::string>{"algo-1", "algo-2", "algo-3"});
    s.phase(Phase::downloading, "algo-2");
    CHECK(s.path() == "Starting Downloading");
    s.phase(Phase::training, "algo-2").phase(Phase::training, "algo-1");
    CHECK(s.path() == "Starting Downloading");
    s.phase(Phase::training, "algo-3");
    CHECK(s.path() == "Starting Downloading Training");
    s.finish(Outcome::Kind::failed, "algo-3", "AlgorithmError: first");
    CHECK(s.job.status == Status::in_progress);
    CHECK(wants_stop(s.job));
    CHECK(s.has<Wake>());
    s.finish(Outcome::Kind::failed, "algo-1", "AlgorithmError: second");
    s.finish(Outcome::Kind::stopped, "algo-2");
    CHECK(s.job.status == Status::failed);
    CHECK(s.job.failure_reason == "AlgorithmError: first");
}

TEST_CASE("ten hosts are ordered as text") {
    JobSpec spec;
    spec.instance_count = 10;
    const auto hosts = hosts_of(spec);
    CHECK(hosts[0] == "algo-1");
    CHECK(hosts[1] == "algo-10");
    CHECK(hosts[2] == "algo-2");
}

TEST_CASE("waiting for a slot shows in the message until the agents are placed") {
    Story s;
    const AttemptId attempt = s.job.attempts.back().id;
    s.tell(Queued{attempt, 2});
    CHECK(s.job.transitions.back().message == "Waiting for a free slot: 2 jobs are running");
    s.tell(Placed{attempt}).tell(Queued{attempt, 2});
    CHECK(s.job.transitions.back().message == "Preparing the instances for training");
    CHECK(s.job.transitions.size() == 1);
}

TEST_CASE("events of other attempts and unknown hosts are ignored") {
    Story s;
    const std::int64_t version = s.job.version;
    const plan::Event event{1, at(0), "algo-1", plan::PhaseChanged{Phase::training, {}}};
    s.tell(AgentEvent{AttemptId("j-test.7"), event});
    s.event(plan::AgentUp{}, "algo-2");
    CHECK(s.job.version == version);
}

TEST_CASE("the stored state reads back equal") {
    Story s(spot(2));
    s.phase(Phase::training).finish(Outcome::Kind::failed, "algo-1", "x", 4).tell(StopRequested{});
    const std::string text = state_to_json(s.job);
    Job back;
    state_from_json(text, back);
    CHECK(state_to_json(back) == text);
}

TEST_CASE("a row of a version that knew one attempt and one command opens and goes on") {
    const std::string old =
        R"({"transitions":[{"status":"Starting","start":1000,"end":2000,"message":"m"},)"
        R"({"status":"Downloading","start":2000,"end":3000,"message":"m"},)"
        R"({"status":"Training","start":3000,"message":"m"}],"training_start":2000,)"
        R"("stop_requested":false,"model_uploaded":false,"attempts":[{"id":"j-test.1","number":1,)"
        R"("seen":{"algo-1":3,"algo-2":4},"phases":{"algo-1":2,"algo-2":3},"finished":{"algo-2":)"
        R"({"kind":0,"reason":"","exit_code":0}},"launched":true,"released":false}]})";
    Story s(2);
    Job job;
    job.id = JobId("j-test");
    job.spec.instance_count = 2;
    job.created = from_epoch_millis(1000);
    state_from_json(old, job);
    CHECK(job.instances == 2);
    s.job = job;
    CHECK(s.node("algo-1").seen == 3);
    CHECK(s.node("algo-1").launched);
    CHECK(s.node("algo-1").epoch == 1);
    CHECK(s.node("algo-2").finished.has_value());
    s.seq["j-test.1 algo-1"] = 3;
    s.finish(Outcome::Kind::completed);
    CHECK(s.job.status == Status::completed);
    CHECK(s.has<Release>());
    CHECK(s.job.training_seconds() > 1);
    Job back;
    back.status = s.job.status;
    state_from_json(state_to_json(s.job), back);
    CHECK(back.training_seconds() == s.job.training_seconds());

    Job over;  // a finished one keeps its time
    over.spec.instance_count = 1;
    over.status = Status::completed;
    state_from_json(
        R"({"transitions":[{"status":"Completed","start":9000,"end":9000,"message":"m"}],)"
        R"("training_start":2000,"training_end":9000,"stop_requested":false,)"
        R"("model_uploaded":true,"attempts":[{"id":"j-x.1","number":1,"launched":true,)"
        R"("released":false}]})",
        over);
    CHECK(over.training_seconds() == 7);
    CHECK(step(over, Released{AttemptId("j-x.1")}, at(0)).job.attempts.back().released);
}

TEST_CASE("a stop asked for before the update still reaches the agent") {
    Job job;
    job.spec.instance_count = 1;
    job.status = Status::stopping;
    state_from_json(
        R"({"transitions":[{"status":"Stopping","start":1000,"message":"m"}],)"
        R"("stop_requested":true,"model_uploaded":false,"attempts":[{"id":"j-x.1","number":1,)"
        R"("seen":{"algo-1":3},"phases":{"algo-1":2},"launched":true,"released":false}]})",
        job);
    REQUIRE(job.attempts.back().nodes.at("algo-1").commands.size() == 1);
}

TEST_CASE("several hosts with parts: one joins them when all are so far, then the others may go") {
    Story s(3);
    s.train();
    s.event(plan::Collected{true, true}, "algo-2").event(plan::Collected{true, false}, "algo-3");
    CHECK(s.command("algo-2").empty());
    s.event(plan::Collected{}, "algo-1");
    CHECK(s.path() == "Starting Downloading Training Uploading");
    CHECK(s.command("algo-1") == "Finish algo-2+algo-3");
    CHECK(s.has<Wake>());
    CHECK(s.command("algo-2").empty());  // waits: it may have to do it instead
    s.finish(Outcome::Kind::completed, "algo-1");
    CHECK(s.command("algo-2") == "Finish ");
    CHECK(s.command("algo-3") == "Finish ");
    s.finish(Outcome::Kind::completed, "algo-2").finish(Outcome::Kind::completed, "algo-3");
    CHECK(s.job.status == Status::completed);
    Story none(2);
    none.train().event(plan::Collected{}, "algo-1").event(plan::Collected{}, "algo-2");
    CHECK(none.command("algo-1") == "Finish ");
    CHECK(none.command("algo-2") == "Finish ");
}

TEST_CASE("parts of a host that failed are joined by the others") {
    Story s(2);
    s.train().event(plan::Collected{true, false}, "algo-1");
    s.finish(Outcome::Kind::failed, "algo-1", "AlgorithmError: x", 1);
    CHECK(s.command("algo-2") == "Stop");
    s.event(plan::Collected{true, false}, "algo-2");
    CHECK(s.command("algo-2") == "Finish algo-1+algo-2");
    s.finish(Outcome::Kind::stopped, "algo-2");
    CHECK(s.job.failure_reason == "AlgorithmError: x");
}

TEST_CASE("checkpoints and progress are kept, the newest of each") {
    Story s;
    s.train();
    plan::CheckpointCommitted committed;
    committed.id = "000001-000000000-000000002-algo-1";
    s.event(committed);
    committed.id = "000001-000000000-000000001-algo-1";
    s.event(committed);
    CHECK(s.job.checkpoint->id == "000001-000000000-000000002-algo-1");
    s.event(plan::Progress{3, 10, "epoch"});
    CHECK(s.job.progress->step == 3);
    CHECK(s.path() == "Starting Training");
}
