// SPDX-License-Identifier: Apache-2.0
// The life of a job, and what no sequence of stimuli may break. Whole stories with exact texts are
// in tests/scenarios.
#include "base/random.h"
#include "base/text.h"
#include "jobs/jobs.h"
#include "jobs/rows.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::jobs;
using plan::Outcome;
using plan::Phase;

namespace {

Instant at(long long millis) {
    return from_epoch_millis(1'762'116'564'000 + millis);
}

Job fresh(int hosts = 1) {
    Job job;
    job.id = JobId("j-test");
    job.version = 0;
    job.spec.name = "Job";
    job.spec.instance_count = hosts;
    return step(job, Created{}, at(0)).job;
}

/// A job with its events numbered per host, as an agent sends them.
struct Story {
    Job job;
    std::map<std::string, std::uint64_t> seq;
    std::vector<Effect> effects;
    long long now = 0;

    explicit Story(int hosts = 1) : job(fresh(hosts)) {}
    Story& tell(const Stimulus& stimulus) {
        Stepped stepped = step(std::move(job), stimulus, at(now));
        job = std::move(stepped.job);
        effects = std::move(stepped.effects);
        return *this;
    }
    Story& event(plan::Payload payload, const std::string& host = "algo-1") {
        plan::Event event{++seq[host], at(now), host, std::move(payload)};
        return tell(AgentEvent{job.attempts.back().id, event});
    }
    Story& phase(Phase phase, const std::string& host = "algo-1", const std::string& message = {}) {
        return event(plan::PhaseChanged{phase, message}, host);
    }
    Story& finish(Outcome::Kind kind, const std::string& host = "algo-1",
                  const std::string& reason = {}, std::optional<int> code = {}) {
        return event(plan::Finished{{kind, reason, code}, true}, host);
    }
    Story& wait(long long millis) {
        now += millis;
        return *this;
    }
    template <typename T>
    bool has() const {
        for (const Effect& effect : effects)
            if (std::holds_alternative<T>(effect)) return true;
        return false;
    }
    std::string path() const {
        std::string text;
        for (const Transition& t : job.transitions)
            text.append(text.empty() ? "" : " ").append(to_string(t.status));
        return text;
    }
};

}  // namespace

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
    Story s(2);
    s.phase(Phase::training).finish(Outcome::Kind::failed, "algo-1", "x", 4).tell(StopRequested{});
    const std::string text = state_to_json(s.job);
    Job back;
    state_from_json(text, back);
    CHECK(state_to_json(back) == text);
}

namespace {

std::uint64_t random_number(Ids& ids, std::uint64_t below) {
    std::uint64_t value = 0;
    for (const char c : ids.token(8)) value = value * 31 + static_cast<unsigned char>(c);
    return value % below;
}

Stimulus random_stimulus(Ids& ids, const Job& job, std::vector<Stimulus>& past) {
    if (!past.empty() && random_number(ids, 4) == 0) return past[random_number(ids, past.size())];
    const AttemptId attempt = job.attempts.back().id;
    const std::string host = fmt::format("algo-{}", 1 + random_number(ids, 4));
    plan::Event event{1 + random_number(ids, 12),
                      at(static_cast<long long>(random_number(ids, 90'000))), host,
                      plan::AgentUp{}};
    switch (random_number(ids, 9)) {
        case 0:
            return StopRequested{};
        case 1:
            return Placed{attempt};
        case 2:
            return Queued{attempt, 3};
        case 3:
            return random_number(ids, 6) == 0 ? Stimulus(AgentGone{attempt, host, "x"}) : Created{};
        case 4:
            return Released{attempt};
        case 5:
            return random_number(ids, 6) == 0 ? Stimulus(LaunchFailed{attempt, "y"}) : Created{};
        case 6: {
            const auto kind = static_cast<Outcome::Kind>(random_number(ids, 5));
            event.payload = plan::Finished{{kind, "r", {}}, random_number(ids, 2) == 0};
            break;
        }
        default:
            event.payload = plan::PhaseChanged{static_cast<Phase>(random_number(ids, 4)),
                                               random_number(ids, 2) == 0 ? "" : ids.token(5)};
    }
    return AgentEvent{attempt, event};
}

void check_invariants(const Job& before, const Job& after, Instant now) {
    const auto& t = after.transitions;
    REQUIRE_FALSE(t.empty());
    CHECK(t.size() >= before.transitions.size());
    for (std::size_t i = 0; i + 1 < t.size(); ++i) {
        CHECK(t[i].end == t[i + 1].start);
        CHECK(t[i].start <= t[i + 1].start);
        CHECK(t[i].status != t[i + 1].status);
    }
    CHECK(t.back().start <= now);
    CHECK(t.back().end.has_value() == is_terminal(after.status));
    if (is_terminal(after.status)) CHECK(t.back().end == t.back().start);
    for (const Transition& one : t) CHECK_FALSE(one.message.empty());
    CHECK((after.status == Status::failed) == !after.failure_reason.empty());
    CHECK(after.modified >= before.modified);
    if (after.training_end) CHECK(*after.training_start <= *after.training_end);
    if (is_terminal(before.status)) {
        Job same = after;  // only the release may still be noted
        same.attempts = before.attempts;
        CHECK(state_to_json(same) == state_to_json(before));
        CHECK(after.status == before.status);
    }
    const bool equal =
        state_to_json(before) == state_to_json(after) && before.status == after.status;
    CHECK(equal == (before.version == after.version));
}

}  // namespace

TEST_CASE("no sequence of stimuli breaks the life cycle, and repeating one changes nothing") {
    SeededIds ids(20261120);
    for (int round = 0; round < 60; ++round) {
        Job job = fresh(1 + static_cast<int>(random_number(ids, 3)));
        std::vector<Stimulus> past;
        for (int move = 0; move < 40; ++move) {
            const Stimulus stimulus = random_stimulus(ids, job, past);
            past.push_back(stimulus);
            const Instant now = at(move * 1000);
            const Job after = step(job, stimulus, now).job;
            check_invariants(job, after, now);
            const Stepped again = step(after, stimulus, now);
            CHECK(again.job.version == after.version);
            CHECK(again.effects.empty());
            job = after;
        }
    }
}
