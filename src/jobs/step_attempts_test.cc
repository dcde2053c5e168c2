// SPDX-License-Identifier: Apache-2.0
// Jobs of fixed size that lose machines: interruptions, retries, limits over all attempts.
#include "jobs/rows.h"
#include "jobs/testing.h"

#include <doctest/doctest.h>

#include <set>

using namespace ty;
using namespace ty::jobs;
using namespace ty::jobs::testing;
using plan::Outcome;
using plan::Phase;

TEST_CASE("a notice tells every node to leave, and another attempt follows the release") {
    Story s(spot(2));
    s.train().wait(1000).fault(Fault::Kind::notice, "algo-2");
    CHECK(s.path() == "Starting Downloading Training Interrupted");
    CHECK(s.message() ==
          "Training job interrupted on algo-2: test; it starts from the beginning on new "
          "instances, because it has no CheckpointConfig");
    CHECK(s.command("algo-1") == "Interrupt");
    CHECK(s.command("algo-2") == "Interrupt");
    CHECK(std::get<plan::Interrupt>(s.node("algo-1").commands.back()).notice ==
          milliseconds(30'000));
    CHECK(s.has<Wake>());
    s.phase(Phase::training, "algo-1", "late words");
    s.wait(500).finish(Outcome::Kind::interrupted, "algo-2");
    CHECK_FALSE(s.has<Release>());
    s.finish(Outcome::Kind::interrupted, "algo-1");
    CHECK(s.has<Release>());
    CHECK_FALSE(s.has<Launch>());
    CHECK(s.path() == "Starting Downloading Training Interrupted");
    const AttemptId first = s.attempt().id;
    s.wait(700).released();
    CHECK(s.has<Launch>());
    CHECK(s.job.attempts.front().released);
    CHECK(s.attempt().id.str() == "j-test.2");
    CHECK(s.attempt().number == 2);
    CHECK(s.path() == "Starting Downloading Training Interrupted Starting");
    CHECK(s.message() == "Starting the training job");
    CHECK(s.node("algo-1").epoch > 1'762'116'564);
    s.tell(Released{first});  // once more changes nothing
    CHECK(s.job.attempts.size() == 2);
    s.wait(1).phase(Phase::downloading, "algo-1").train().wait(3000);
    s.finish(Outcome::Kind::completed, "algo-1").finish(Outcome::Kind::completed, "algo-2");
    CHECK(s.job.status == Status::completed);
    CHECK(s.path() ==
          "Starting Downloading Training Interrupted Starting Downloading Training Completed");
    // 1500 ms of the first attempt and 3000 of the second; the time between is nobody's.
    CHECK(s.job.trained == milliseconds(4500));
    CHECK(s.job.training_seconds() == 4);
    CHECK(s.job.training_start == at(0));
}

TEST_CASE("a job with checkpoints says that it goes on from them") {
    JobSpec spec = spot(1);
    spec.node.checkpoint.emplace();
    Story s(spec);
    s.train().gone();
    CHECK(s.message() ==
          "Training job interrupted on algo-1: the agent ended unexpectedly (SIGKILL); it goes on "
          "from its last checkpoint on new instances");
    CHECK(s.has<Release>());
    s.released();
    CHECK(s.path() == "Starting Training Interrupted Starting");
}

TEST_CASE("a lost node of a spot job lets the others say goodbye") {
    Story s(spot(3));
    s.train().gone("algo-2");
    CHECK(std::get<plan::Interrupt>(s.node("algo-1").commands.back()).notice ==
          milliseconds(10'000));
    s.finish(Outcome::Kind::failed, "algo-3", "AlgorithmError: connection reset", 1);
    CHECK(s.job.status == Status::in_progress);  // a consequence, not a failure
    CHECK_FALSE(s.has<Release>());
    s.gone("algo-1");
    CHECK(s.has<Release>());
}

TEST_CASE("a program that fails because its peer was lost is no failure, whatever is told first") {
    Story s(spot(2));
    s.train().finish(Outcome::Kind::failed, "algo-1", "AlgorithmError: connection reset", 1);
    CHECK(s.command("algo-2") == "Stop");
    s.gone("algo-2");
    CHECK(s.job.status == Status::in_progress);
    CHECK(s.path() == "Starting Downloading Training Interrupted");
    CHECK(s.has<Release>());
    Story asked(2);  // not spot, but the kill was asked for
    asked.train().fault(Fault::Kind::kill, "algo-2");
    CHECK(asked.has<Kill>());
    CHECK(asked.path() == "Starting Downloading Training");
    asked.finish(Outcome::Kind::failed, "algo-1", "AlgorithmError: connection reset", 1);
    CHECK(asked.path() == "Starting Downloading Training Interrupted");
    asked.gone("algo-2");
    CHECK(asked.has<Release>());
}

TEST_CASE("a kill that was asked for interrupts any job, another loss only a spot job") {
    Story s(1);
    s.train().fault(Fault::Kind::kill, "");
    CHECK(s.has<Kill>());
    s.gone();
    CHECK(s.message().find("interrupted on algo-1: test; ") != std::string::npos);
    CHECK(s.job.fruitless == 0);
    s.released().train().gone();
    CHECK(s.job.status == Status::failed);
}

TEST_CASE("a program that ends well within its notice has completed the job") {
    Story s(spot(1));
    s.train().fault(Fault::Kind::notice, "algo-1").finish(Outcome::Kind::completed);
    CHECK(s.job.status == Status::completed);
    Story two(spot(2));
    two.train().fault(Fault::Kind::notice, "algo-1");
    two.finish(Outcome::Kind::completed, "algo-1").finish(Outcome::Kind::interrupted, "algo-2");
    CHECK(two.job.status == Status::in_progress);
    CHECK(two.has<Release>());
}

TEST_CASE("an agent that goes on its own notice interrupts a job too") {
    Story s(1);
    s.train().finish(Outcome::Kind::interrupted, "algo-1", "the machine shuts down");
    CHECK(s.path() == "Starting Training Interrupted");
    CHECK(s.has<Release>());
}

TEST_CASE("a node that stays longer than its notice is killed") {
    Story s(spot(1));
    s.train().fault(Fault::Kind::notice, "algo-1");
    CHECK(next_due(s.job) == at(90'000));
    s.wait(89'000).tell(TimePassed{});
    CHECK_FALSE(s.has<Kill>());
    s.wait(1'000).tell(TimePassed{});
    CHECK(s.has<Kill>());
    CHECK_FALSE(next_due(s.job).has_value());
    s.tell(TimePassed{});
    CHECK_FALSE(s.has<Kill>());
    s.gone();
    CHECK(s.has<Release>());
}

TEST_CASE("errors of ours are retried as often as RetryStrategy says") {
    JobSpec spec = fixed(2);
    spec.retries = 2;
    Story s(spec);
    s.train().gone("algo-1");
    CHECK(s.path() == "Starting Downloading Training Restarting");
    CHECK(s.message().find("(1 of 2 retries): algo-1: the agent ended") != std::string::npos);
    CHECK(s.command("algo-2") == "Interrupt");
    s.finish(Outcome::Kind::interrupted, "algo-2").released().train();
    CHECK(s.path() == "Starting Downloading Training Restarting Starting Downloading Training");
    s.finish(Outcome::Kind::agent_error, "algo-2", "InternalServerError: disk");
    s.finish(Outcome::Kind::interrupted, "algo-1").released().train();
    s.gone("algo-2");
    CHECK(s.job.status == Status::failed);
    CHECK(s.job.failure_reason.starts_with("InternalServerError: the agent on algo-2 ended"));
    CHECK(s.path().ends_with("Restarting Starting Downloading Training Failed"));
    Story program(spec);
    program.train().finish(Outcome::Kind::failed, "algo-1", "AlgorithmError: x", 1);
    program.finish(Outcome::Kind::stopped, "algo-2");
    CHECK(program.job.status == Status::failed);  // the program's own failures are not
}

TEST_CASE("a launch that failed is retried after a pause") {
    JobSpec spec = fixed(1);
    spec.retries = 1;
    Story s(spec);
    s.tell(LaunchFailed{s.attempt().id, "no processes left"});
    CHECK(s.path() == "Starting Restarting");
    CHECK(s.has<Release>());
    s.released();
    CHECK_FALSE(s.has<Launch>());
    REQUIRE(next_due(s.job) == at(1000));
    s.wait(1000).tell(TimePassed{});
    CHECK(s.has<Launch>());
    CHECK(s.path() == "Starting Restarting Starting");
    s.tell(LaunchFailed{s.attempt().id, "no processes left"});
    CHECK(s.job.status == Status::failed);
}

TEST_CASE("a spot job that is lost again and again before it trains fails in the end") {
    Story s(spot(1));
    int attempts = 0;
    while (!is_terminal(s.job.status) && attempts < 100) {
        ++attempts;
        s.placed().event(plan::AgentUp{}).gone();
        if (is_terminal(s.job.status)) break;
        s.released();
        if (!s.has<Launch>()) {
            const auto due = next_due(s.job);
            REQUIRE(due.has_value());
            s.wait((*due - at(s.now)).count()).tell(TimePassed{});
            CHECK(s.has<Launch>());
        }
    }
    CHECK(attempts == 11);
    CHECK(s.job.status == Status::failed);
    Story lucky(spot(1));  // but not one that trains in between
    for (int i = 0; i < 50; ++i) {
        lucky.train().gone().released();
        REQUIRE(lucky.has<Launch>());
    }
    CHECK(lucky.job.attempts.size() <= 16);
    CHECK(lucky.attempt().number == 51);
}

TEST_CASE("MaxRuntime counts the training of all attempts") {
    JobSpec spec = spot(1);
    spec.node.limits.max_runtime = seconds(100);
    Story s(spec);
    s.phase(Phase::downloading).wait(5000).phase(Phase::training).wait(60'000).gone();
    CHECK(s.job.ran == seconds(60));
    CHECK(s.job.trained == seconds(65));
    s.wait(10'000).released();
    CHECK(runtime_left(s.job, at(s.now)) == seconds(40));
    s.train().wait(40'000).gone();
    s.released();
    CHECK(s.job.status == Status::stopped);
    CHECK(s.job.secondary() == Secondary::max_runtime_exceeded);
    CHECK_FALSE(s.has<Launch>());
}

TEST_CASE("MaxWait stops a spot job wherever it is") {
    JobSpec spec = spot(1);
    spec.max_wait = seconds(100);
    Story s(spec);
    CHECK(next_due(s.job) == at(100'000));
    s.train().wait(99'999).tell(TimePassed{});
    CHECK(s.job.status == Status::in_progress);
    s.wait(1).tell(TimePassed{});
    CHECK(s.job.status == Status::stopping);
    CHECK(s.command("algo-1") == "Stop");
    CHECK_FALSE(next_due(s.job).has_value());
    s.finish(Outcome::Kind::stopped);
    CHECK(s.job.status == Status::stopped);
    CHECK(s.path() == "Starting Training Stopping MaxWaitTimeExceeded");

    Story waiting(spec);  // in the queue
    waiting.wait(100'000).tell(TimePassed{});
    CHECK(waiting.path() == "Starting MaxWaitTimeExceeded");
    CHECK(waiting.has<Release>());

    Story between(spec);
    between.train().gone().wait(100'000).tell(TimePassed{});
    CHECK(between.path() == "Starting Training Interrupted MaxWaitTimeExceeded");
    between.released();
    CHECK_FALSE(between.has<Launch>());
    CHECK(between.attempt().released);

    spec.spot = false;  // it means nothing without spot
    CHECK_FALSE(next_due(Story(spec).job).has_value());
}

TEST_CASE("a stop ends a job at once between attempts, and with its nodes when they run") {
    Story s(spot(1));
    s.train().gone().tell(StopRequested{});
    CHECK(s.path() == "Starting Training Interrupted Stopped");
    s.released();
    CHECK_FALSE(s.has<Launch>());

    Story second(spot(1));
    second.train().gone().released().placed().tell(StopRequested{});
    CHECK(second.path() == "Starting Training Interrupted Starting Stopped");

    Story leaving(spot(2));
    leaving.train().fault(Fault::Kind::notice, "algo-1").tell(StopRequested{});
    CHECK(leaving.job.status == Status::stopping);
    CHECK(leaving.command("algo-1") == "Stop");
    CHECK(leaving.node("algo-1").commands.size() == 2);
    leaving.finish(Outcome::Kind::interrupted, "algo-1").gone("algo-2");
    CHECK(leaving.job.status == Status::stopped);
    CHECK(leaving.path() == "Starting Downloading Training Interrupted Stopping Stopped");
}

TEST_CASE("the end of the network ends the attempt") {
    Story s(spot(2));
    s.train().gone("network", "SIGKILL (signal 9)");
    CHECK(s.message().find("on network: the network of the instances ended unexpectedly (SIGKILL "
                           "(signal 9)); ") != std::string::npos);
    CHECK(s.command("algo-1") == "Interrupt");
    Story fixed(2);
    fixed.train().gone("network");
    CHECK(fixed.job.status == Status::failed);
    CHECK(fixed.job.failure_reason.starts_with("InternalServerError: the network of the"));
    JobSpec spec = testing::fixed(2);
    spec.retries = 1;
    Story again(spec);
    again.train().gone("network").gone("network");
    CHECK(again.path() == "Starting Downloading Training Restarting");
}

TEST_CASE("a timed out host takes the others with it") {
    Story s(2);
    s.train().finish(Outcome::Kind::timed_out, "algo-2");
    CHECK(s.command("algo-1") == "Stop");
    s.finish(Outcome::Kind::stopped, "algo-1");
    CHECK(s.job.secondary() == Secondary::max_runtime_exceeded);
}

TEST_CASE("freezes and partitions are commands and change nothing else") {
    Story s(2);
    s.train().fault(Fault::Kind::freeze, "algo-1", 500).fault(Fault::Kind::partition, "algo-1");
    CHECK(s.node("algo-1").commands.size() == 2);
    CHECK(s.command("algo-1") == "Partition");
    CHECK(s.node("algo-2").commands.empty());
    CHECK(s.path() == "Starting Downloading Training");
    s.fault(Fault::Kind::freeze, "algo-7");
    CHECK(s.effects.empty());
}

TEST_CASE("scheduled faults come at random intervals that depend on the seed only") {
    const auto run = [](std::uint64_t seed) {
        Story s(spot(3));
        s.train();
        FaultSchedule schedule;
        schedule.fault.kind = Fault::Kind::freeze;
        schedule.every = seconds(60);
        schedule.seed = seed;
        s.tell(FaultsScheduled{schedule});
        std::vector<long long> times;
        std::string hosts;
        for (int i = 0; i < 200; ++i) {
            const auto due = next_due(s.job);
            REQUIRE(due.has_value());
            times.push_back((*due - at(s.now)).count());
            s.wait(times.back()).tell(TimePassed{});
        }
        for (const auto& [name, node] : s.attempt().nodes)
            hosts += fmt::format("{} ", node.commands.size());
        return std::pair(times, hosts);
    };
    const auto [times, hosts] = run(7);
    CHECK(run(7) == std::pair(times, hosts));
    CHECK(run(8).first != times);
    double sum = 0;
    for (const long long one : times) sum += static_cast<double>(one);
    CHECK(sum / 200 > 40'000);
    CHECK(sum / 200 < 85'000);
    for (const std::string& count : split(trim(hosts), ' ')) CHECK(*parse_int(count) > 30);

    Story off(spot(1));
    FaultSchedule schedule;
    schedule.every = seconds(1);
    off.train().tell(FaultsScheduled{schedule}).tell(FaultsScheduled{});
    CHECK_FALSE(next_due(off.job).has_value());
    off.tell(FaultsScheduled{schedule}).finish(Outcome::Kind::completed);
    CHECK_FALSE(off.job.faults.has_value());
}

TEST_CASE("a job that is interrupted thousands of times stays small and readable") {
    Story s(spot(2));
    std::set<std::string> streams;
    for (int i = 0; i < 3000; ++i) {
        s.train().wait(10'000).fault(Fault::Kind::notice, "algo-1");
        CHECK(streams.insert(std::to_string(s.node("algo-1").epoch)).second);
        s.finish(Outcome::Kind::interrupted, "algo-1");
        s.finish(Outcome::Kind::interrupted, "algo-2").released();
    }
    CHECK(s.job.transitions.size() <= 600);
    for (std::size_t i = 0; i + 1 < s.job.transitions.size(); ++i) {
        CHECK(s.job.transitions[i].end == s.job.transitions[i + 1].start);
        CHECK(s.job.transitions[i].status != s.job.transitions[i + 1].status);
    }
    CHECK(state_to_json(s.job).size() < 200'000);
    CHECK(s.job.trained == seconds(30'000));
}

TEST_CASE("a node that is lost when nothing of it is missing has completed") {
    Story s(spot(2));
    s.train().event(plan::Collected{true, false}, "algo-1");
    s.event(plan::Collected{true, false}, "algo-2").finish(Outcome::Kind::completed, "algo-1");
    CHECK(s.command("algo-2") == "Finish ");
    s.gone("algo-2");
    CHECK(s.job.status == Status::completed);
}

TEST_CASE("half of the results of an attempt that is given up is not joined") {
    Story s(spot(2));
    s.train().event(plan::Collected{true, false}, "algo-1").fault(Fault::Kind::notice, "algo-2");
    s.finish(Outcome::Kind::interrupted, "algo-2");
    CHECK(s.command("algo-1") == "Interrupt");
    s.finish(Outcome::Kind::interrupted, "algo-1");
    CHECK(s.has<Release>());
}
