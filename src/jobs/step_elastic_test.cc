// SPDX-License-Identifier: Apache-2.0
// Elastic jobs: nodes come and go within one attempt.
#include "jobs/rows.h"
#include "jobs/testing.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::jobs;
using namespace ty::jobs::testing;
using plan::Outcome;
using plan::Phase;

TEST_CASE("a lost node is replaced within the attempt, under a new name for the same host") {
    Story s(elastic(3, 1, 4));
    CHECK(s.names() == "algo-1 algo-2 algo-3");
    s.train();
    CHECK(s.path() == "Starting Training");
    CHECK(s.message() == "Training on 3 of 3 instances");
    s.wait(100).gone("algo-2", "SIGKILL");
    CHECK(s.names() == "algo-1 algo-2~2 algo-3");
    CHECK(s.has<ReleaseNode>());
    CHECK(s.has<Launch>());
    CHECK_FALSE(s.has<Release>());
    CHECK(s.path() == "Starting Training");
    CHECK(s.message() ==
          "Training on 2 of 3 instances: algo-2 left (the agent ended unexpectedly (SIGKILL))");
    CHECK(s.node("algo-2~2").host == "algo-2");
    CHECK(s.node("algo-2~2").epoch > s.node("algo-1").epoch);
    s.tell(Released{s.attempt().id, "algo-2"});
    CHECK_FALSE(s.attempt().nodes.contains("algo-2"));
    s.phase(Phase::downloading, "algo-2~2").phase(Phase::training, "algo-2~2");
    CHECK(s.message() == "Training on 3 of 3 instances");
    CHECK(s.path() == "Starting Training");
    s.gone("algo-2~2");
    CHECK(s.names() == "algo-1 algo-2~3 algo-3");
    CHECK(s.job.status == Status::in_progress);
}

TEST_CASE("a notice goes to one node, which is replaced when it has left") {
    Story s(elastic(2, 1, 4));
    s.train().fault(Fault::Kind::notice, "algo-1");
    CHECK(s.command("algo-1") == "Interrupt");
    CHECK(s.command("algo-2").empty());
    CHECK_FALSE(s.has<Launch>());
    s.finish(Outcome::Kind::interrupted, "algo-1");
    CHECK(s.has<ReleaseNode>());
    CHECK(s.names() == "algo-1~2 algo-2");
    CHECK(s.path() == "Starting Training");
}

TEST_CASE("all nodes gone: the job is interrupted and goes on with the replacements") {
    Story s(elastic(2, 1, 2));
    s.train().gone("algo-1");
    CHECK(s.names() == "algo-1~2 algo-2");
    s.gone("algo-1~2").gone("algo-2");
    CHECK(s.path() == "Starting Training Interrupted Starting");
    s.train();
    CHECK(s.path() == "Starting Training Interrupted Starting Training");
    CHECK(s.job.attempts.size() == 1);
    for (const auto& [name, node] : std::map(s.attempt().nodes))
        if (!node.finished) s.finish(Outcome::Kind::completed, name);
    CHECK(s.job.status == Status::completed);
    CHECK(s.has<Release>());
}

TEST_CASE("an elastic job completes with one node that does, and replaces nobody at its end") {
    Story s(elastic(3, 1, 3));
    s.train().finish(Outcome::Kind::completed, "algo-1");
    s.finish(Outcome::Kind::interrupted, "algo-2");
    CHECK_FALSE(s.has<Launch>());
    s.finish(Outcome::Kind::interrupted, "algo-3");
    CHECK(s.job.status == Status::completed);
    CHECK(s.path() == "Starting Training Completed");
}

TEST_CASE(
    "a node that is lost at the end of an elastic job, before its results are stored, is made up "
    "for") {
    Story s(elastic(2, 1, 3));
    s.train().finish(Outcome::Kind::completed, "algo-1");
    s.gone("algo-2");
    CHECK(s.path() == "Starting Training Interrupted");
    CHECK(s.has<Release>());
    s.tell(Released{s.attempt().id, {}});
    CHECK(s.job.attempts.size() == 2);
    CHECK(s.names() == "algo-1 algo-2");
}

TEST_CASE("results of an elastic job: another node joins the parts when the one asked is lost") {
    Story s(elastic(3, 1, 3));
    s.train();
    for (const char* name : {"algo-1", "algo-2", "algo-3"})
        s.event(plan::Collected{true, false}, name);
    CHECK(s.command("algo-1") == "Finish algo-1+algo-2+algo-3");
    s.gone("algo-1");
    s.tell(Released{s.attempt().id, "algo-1"});
    CHECK(s.command("algo-2") == "Finish algo-1+algo-2+algo-3");
    s.finish(Outcome::Kind::completed, "algo-2");
    CHECK(s.command("algo-3") == "Finish ");
    s.finish(Outcome::Kind::completed, "algo-3");
    CHECK(s.job.status == Status::completed);
}

TEST_CASE("scaling up adds the lowest free hosts, scaling down lets the highest go") {
    Story s(elastic(2, 1, 5));
    s.train().tell(ScaleRequested{4});
    CHECK(s.names() == "algo-1 algo-2 algo-3 algo-4");
    CHECK(s.has<Launch>());
    CHECK(s.message() == "Training on 2 of 4 instances");
    s.tell(ScaleRequested{4});
    CHECK(s.effects.empty());
    s.train().tell(ScaleRequested{2});
    CHECK(s.command("algo-4") == "Interrupt");
    CHECK(s.command("algo-3") == "Interrupt");
    CHECK(s.command("algo-2").empty());
    const auto& interrupt = std::get<plan::Interrupt>(s.node("algo-4").commands.back());
    CHECK(interrupt.why == "scaled down");
    CHECK(interrupt.notice == milliseconds(120'000));
    s.finish(Outcome::Kind::interrupted, "algo-4").finish(Outcome::Kind::interrupted, "algo-3");
    CHECK(s.names() == "algo-1 algo-2");
    CHECK(s.message().starts_with("Training on 2 of 2 instances"));
    s.tell(ScaleRequested{6}).tell(ScaleRequested{0});  // outside its range
    CHECK(s.job.instances == 2);
    s.tell(ScaleRequested{3});
    CHECK(s.names() == "algo-1 algo-2 algo-3~2");
    s.tell(ScaleRequested{2});  // it never began: it need not
    CHECK(s.names() == "algo-1 algo-2");
    Story fixed(2);
    fixed.train().tell(ScaleRequested{3});
    CHECK(fixed.job.instances == 2);
}

TEST_CASE("the end of the network of an elastic job begins another attempt of the wanted size") {
    Story s(elastic(2, 1, 4));
    s.train().tell(ScaleRequested{3}).train().gone("network", "SIGKILL (signal 9)");
    CHECK(s.path() == "Starting Training Interrupted");
    for (const char* name : {"algo-1", "algo-2", "algo-3"})
        s.finish(Outcome::Kind::interrupted, name);
    CHECK(s.has<Release>());
    s.released();
    CHECK(s.attempt().number == 2);
    CHECK(s.names() == "algo-1 algo-2 algo-3");
}

TEST_CASE("a failure of the program in an elastic job is the job's, the others stop") {
    Story s(elastic(2, 1, 2));
    s.train().finish(Outcome::Kind::failed, "algo-2", "AlgorithmError: x", 1);
    CHECK(s.command("algo-1") == "Stop");
    s.finish(Outcome::Kind::stopped, "algo-1");
    CHECK(s.job.status == Status::failed);
    CHECK(s.job.failure_reason == "AlgorithmError: x");
}

TEST_CASE("a stop of an elastic job waits for those that run and starts nobody") {
    Story s(elastic(2, 1, 3));
    s.train().tell(ScaleRequested{3}).tell(StopRequested{});
    CHECK(s.names() == "algo-1 algo-2");
    CHECK(s.job.status == Status::stopping);
    s.gone("algo-2").finish(Outcome::Kind::stopped, "algo-1");
    CHECK(s.job.status == Status::stopped);
    CHECK_FALSE(s.has<Launch>());
}

TEST_CASE("a node that cannot be added does not disturb those that run") {
    Story s(elastic(1, 1, 3));
    s.train().tell(ScaleRequested{2});
    for (int i = 0; i < 30; ++i) {
        std::vector<std::string> tried;
        for (const auto& [name, node] : s.attempt().nodes)
            if (!node.launched && !node.finished) tried.push_back(name);
        REQUIRE(tried.size() == 1);
        s.tell(LaunchFailed{s.attempt().id, "no room", tried});
        s.tell(Released{s.attempt().id, tried[0]});
        CHECK(s.job.status == Status::in_progress);
        if (s.attempt().not_before) {
            s.wait((*s.attempt().not_before - at(s.now)).count()).tell(TimePassed{});
            CHECK(s.has<Launch>());
        }
    }
    CHECK(s.now > 600'000);  // it does not try all the time
    CHECK(s.attempt().nodes.size() <= 3);
    s.finish(Outcome::Kind::completed, "algo-1");
}

TEST_CASE("an elastic job whose nodes never get to train fails in the end") {
    Story s(elastic(2, 1, 2));
    int lost = 0;
    while (!is_terminal(s.job.status) && lost < 100) {
        for (const auto& [name, node] : std::map(s.attempt().nodes)) {
            if (node.finished) continue;
            s.placed().event(plan::AgentUp{}, name).gone(name);
            ++lost;
        }
        if (is_terminal(s.job.status)) break;
        if (const auto due = next_due(s.job)) s.wait((*due - at(s.now)).count()).tell(TimePassed{});
    }
    CHECK(lost < 20);
    CHECK(s.job.status == Status::failed);
}

TEST_CASE("thousands of lost nodes leave no trace but their number") {
    Story s(elastic(2, 1, 2));
    s.train();
    for (int i = 0; i < 3000; ++i) {
        std::string victim;
        for (const auto& [name, node] : s.attempt().nodes)
            if (!node.finished && node.host == "algo-2") victim = name;
        s.wait(1000).phase(Phase::training, victim).gone(victim);
        s.tell(Released{s.attempt().id, victim});
    }
    CHECK(s.attempt().nodes.size() == 2);
    CHECK(s.attempt().agents.at("algo-2") == 3001);
    CHECK(state_to_json(s.job).size() < 5'000);
    Job back;
    state_from_json(state_to_json(s.job), back);
    CHECK(state_to_json(back) == state_to_json(s.job));
}

TEST_CASE("nodes that were not started when the network ended are not started any more") {
    Story s(elastic(1, 1, 3));
    s.train().tell(ScaleRequested{3}).gone("network");
    CHECK(s.names() == "algo-1");
    s.finish(Outcome::Kind::interrupted, "algo-1");
    CHECK(s.has<Release>());
    s.released();
    CHECK(s.names() == "algo-1 algo-2 algo-3");
}
