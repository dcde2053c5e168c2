// SPDX-License-Identifier: Apache-2.0
// What no sequence of stimuli may break, and that no job is ever stuck.
#include "base/random.h"
#include "jobs/rows.h"
#include "jobs/testing.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace ty;
using namespace ty::jobs;
using namespace ty::jobs::testing;
using plan::Outcome;
using plan::Phase;

namespace {

std::uint64_t random_number(Ids& ids, std::uint64_t below) {
    std::uint64_t value = 0;
    for (const char c : ids.token(8)) value = value * 31 + static_cast<unsigned char>(c);
    return value % below;
}

JobSpec random_spec(Ids& ids) {
    const int hosts = 1 + static_cast<int>(random_number(ids, 3));
    JobSpec spec = random_number(ids, 3) == 0 ? elastic(hosts, 1, 4) : fixed(hosts);
    spec.spot = random_number(ids, 2) == 0;
    if (random_number(ids, 3) == 0) spec.retries = 2;
    if (spec.spot && random_number(ids, 3) == 0) spec.max_wait = seconds(25);
    return spec;
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
            switch (random_number(ids, 12)) {
                case 0:
                    return LaunchFailed{attempt, "y", {}};
                case 1:
                    return ScaleRequested{1 + static_cast<int>(random_number(ids, 4))};
                case 2:
                    return AgentGone{attempt, "network", "z"};
                case 3:
                    return TimePassed{};
                default:
                    return Created{};
            }
        case 6: {
            const auto kind = static_cast<Outcome::Kind>(random_number(ids, 6));
            event.payload = plan::Finished{{kind, "r", {}}, random_number(ids, 2) == 0};
            break;
        }
        default:
            if (random_number(ids, 8) == 0) {
                event.payload = plan::Collected{true, false};
                break;
            }
            event.payload = plan::PhaseChanged{static_cast<Phase>(random_number(ids, 4)),
                                               random_number(ids, 2) == 0 ? "" : ids.token(5)};
    }
    return AgentEvent{attempt, event};
}

/// Commands are only ever added.
void check_commands(const Job& before, const Job& after) {
    if (before.attempts.empty() || before.attempts.back().id != after.attempts.back().id) return;
    for (const auto& [name, node] : before.attempts.back().nodes) {
        const auto found = after.attempts.back().nodes.find(name);
        if (found == after.attempts.back().nodes.end()) continue;
        const auto& now = found->second.commands;
        REQUIRE(now.size() >= node.commands.size());
        for (std::size_t i = 0; i < node.commands.size(); ++i)
            CHECK(plan::to_json(now[i]) == plan::to_json(node.commands[i]));
    }
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
    for (std::size_t i = 0; i + 1 < after.attempts.size(); ++i) {
        CHECK(after.attempts[i].released);
        CHECK(after.attempts[i].ended.has_value());
        CHECK(after.attempts[i].number < after.attempts[i + 1].number);
    }
    check_commands(before, after);
    if (is_terminal(before.status)) {
        Job same = after;  // only the release may still be noted
        same.attempts = before.attempts;
        same.ledger = before.ledger;
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
    for (int round = 0; round < 150; ++round) {
        Job job = fresh(random_spec(ids));
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

namespace {

/// Engine, agents and clock around one job: effects are carried out late and in their order,
/// messages are repeated, agents die. `calm` ends that, and everybody does what it is told.
class Turmoil {
public:
    explicit Turmoil(std::uint64_t seed) : ids_(seed), job_(fresh(random_spec(ids_))) {
        pending_.push_back(Launch{job_.attempts.back().id});
    }

    void shake() {
        switch (random_number(ids_, 10)) {
            case 0:
                if (!past_.empty()) tell(past_[random_number(ids_, past_.size())]);
                return;
            case 1:
                now_ += static_cast<long long>(random_number(ids_, 20'000));
                return pass_time();
            case 2:
                return perform();
            case 3:
                if (random_number(ids_, 8) == 0) lose();
                return;
            case 4:
                return disturb();
            default:
                return agent_speaks(random_number(ids_, 12) == 0);
        }
    }

    /// True when the job came to its end and left nothing behind.
    bool calm() {
        calm_ = true;
        for (int i = 0; i < 5000; ++i) {
            now_ += 100;
            perform();
            pass_time();
            agent_speaks(false);
            if (!is_terminal(job_.status) || !pending_.empty()) continue;
            if (job_.attempts.back().released) return agents_.empty();
        }
        return false;
    }

    std::string tale() const {
        std::string text = fmt::format("{} pending={} agents={}", state_to_json(job_),
                                       pending_.size(), agents_.size());
        return text;
    }

private:
    struct Agent {
        std::uint64_t seq = 0, commands = 0;
        int phase = 0;
        bool ended = false, collected = false, stop = false, leave = false;
        std::optional<plan::Finish> finish;
    };
    using Key = std::pair<std::string, std::string>;  // attempt, node

    void tell(const Stimulus& stimulus) {
        const Job before = job_;
        Stepped stepped = step(job_, stimulus, at(now_));
        job_ = std::move(stepped.job);
        for (Effect& effect : stepped.effects) pending_.push_back(std::move(effect));
        check_invariants(before, job_, at(now_));
        if (random_number(ids_, 4) == 0) {  // the daemon was restarted
            Job back;
            back.id = job_.id;
            back.version = job_.version;
            back.status = job_.status;
            back.created = job_.created;
            back.modified = job_.modified;
            back.spec = job_.spec;
            state_from_json(state_to_json(job_), back);
            CHECK(state_to_json(back) == state_to_json(job_));
            job_ = std::move(back);
        }
    }
    void say(const Key& key, plan::Payload payload) {
        Agent& agent = agents_.at(key);
        plan::Event event{++agent.seq, at(now_), key.second, std::move(payload)};
        past_.push_back(AgentEvent{AttemptId(key.first), event});
        tell(past_.back());
    }
    void pass_time() {
        const auto due = next_due(job_);
        if (due && *due <= at(now_)) tell(TimePassed{});
    }

    void perform() {
        if (pending_.empty()) return;
        const Effect effect = pending_.front();
        pending_.erase(pending_.begin());
        if (const auto* start = std::get_if<Launch>(&effect)) return launch(start->attempt);
        if (const auto* end = std::get_if<Release>(&effect)) {
            std::erase_if(agents_,
                          [&](const auto& a) { return a.first.first == end->attempt.str(); });
            past_.push_back(Released{end->attempt});
            return tell(past_.back());
        }
        if (const auto* node = std::get_if<ReleaseNode>(&effect)) {
            agents_.erase({node->attempt.str(), node->node});
            return tell(Released{node->attempt, node->node});
        }
        if (const auto* victim = std::get_if<Kill>(&effect))
            end({victim->attempt.str(), victim->node});
    }
    void launch(const AttemptId& id) {
        const Attempt& attempt = job_.attempts.back();
        if (attempt.id != id || attempt.ended || is_terminal(job_.status)) return;
        for (const auto& [key, agent] : agents_) CHECK(key.first == id.str());
        std::vector<std::string> nodes;
        for (const auto& [name, node] : attempt.nodes)
            if (!node.launched && !node.finished) nodes.push_back(name);
        if (nodes.empty()) return;
        if (!calm_ && random_number(ids_, 10) == 0) return tell(LaunchFailed{id, "no room", nodes});
        for (const std::string& name : nodes) agents_[{id.str(), name}];
        tell(Placed{id, nodes});
    }
    void end(const Key& key) {
        const auto found = agents_.find(key);
        if (found == agents_.end() || found->second.ended) return;
        found->second.ended = true;
        past_.push_back(AgentGone{AttemptId(key.first), key.second, "SIGKILL"});
        tell(past_.back());
    }
    void lose() {
        if (agents_.empty()) return;
        auto victim = agents_.begin();
        std::advance(victim, static_cast<long>(random_number(ids_, agents_.size())));
        const Key key = victim->first;
        if (random_number(ids_, 10) == 0)
            return tell(AgentGone{AttemptId(key.first), "network", "SIGKILL"});
        end(key);
    }
    void disturb() {
        const auto kind = static_cast<Fault::Kind>(random_number(ids_, 4));
        FaultSchedule schedule;
        schedule.fault.kind = kind;
        schedule.every = seconds(20);
        switch (random_number(ids_, 20)) {
            case 0:
                return tell(FaultRequested{Fault{kind, "", seconds(5), "test"}});
            case 1:
                return tell(FaultsScheduled{schedule});
            case 2:
                return tell(FaultsScheduled{});
            case 3:
            case 4:
                return tell(ScaleRequested{1 + static_cast<int>(random_number(ids_, 4))});
            case 5:
                return random_number(ids_, 4) == 0 ? tell(StopRequested{}) : void();
            default:
                return;
        }
    }
    /// Any one agent takes its commands and its next step.
    void agent_speaks(bool badly) {
        if (agents_.empty()) return;
        auto who = agents_.begin();
        std::advance(who, static_cast<long>(random_number(ids_, agents_.size())));
        const Key key = who->first;
        Agent& agent = who->second;
        if (agent.ended) return;
        take_commands(key, agent);
        using Kind = Outcome::Kind;
        const auto finish = [&](Kind kind) {
            agent.ended = true;
            say(key,
                plan::Finished{{kind, kind == Kind::failed ? "AlgorithmError: x" : "", {}}, true});
        };
        if (badly) return finish(random_number(ids_, 2) == 0 ? Kind::failed : Kind::agent_error);
        if (agent.leave) return finish(Kind::interrupted);
        if (agent.finish) return finish(agent.stop ? Kind::stopped : Kind::completed);
        if (agent.collected) return;
        if (!agent.stop && agent.phase < 2)
            return say(key, plan::PhaseChanged{static_cast<Phase>(++agent.phase), ""});
        if (agent.phase == 2 && !agent.stop && random_number(ids_, 4) != 0)
            return say(key, plan::Progress{static_cast<std::int64_t>(agent.seq), 0, ""});
        const bool many = job_.spec.instance_count > 1 || job_.spec.node.elastic;
        if (!many) return finish(agent.stop ? Kind::stopped : Kind::completed);
        agent.collected = true;
        say(key, plan::Collected{random_number(ids_, 2) == 0, false});
    }
    void take_commands(const Key& key, Agent& agent) {
        const Attempt& attempt = job_.attempts.back();
        const auto node = attempt.nodes.find(key.second);
        if (attempt.id.str() != key.first || node == attempt.nodes.end()) return;
        for (; agent.commands < node->second.commands.size(); ++agent.commands) {
            const plan::Command& command = node->second.commands[agent.commands];
            agent.stop |= std::holds_alternative<plan::Stop>(command);
            agent.leave |= std::holds_alternative<plan::Interrupt>(command);
            if (const auto* finish = std::get_if<plan::Finish>(&command)) agent.finish = *finish;
        }
    }

    SeededIds ids_;
    Job job_;
    long long now_ = 0;
    bool calm_ = false;
    std::vector<Effect> pending_;
    std::vector<Stimulus> past_;
    std::map<Key, Agent> agents_;
};

}  // namespace

TEST_CASE("whatever happens, every job comes to its end and leaves nothing behind") {
    // TY_TURMOIL=5000 for a long look.
    const char* more = std::getenv("TY_TURMOIL");
    const auto seeds =
        static_cast<std::uint64_t>(parse_int(more == nullptr ? "" : more).value_or(30));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Turmoil world(seed);
        for (int i = 0; i < 150; ++i) world.shake();
        const bool over = world.calm();
        CHECK_MESSAGE(over, fmt::format("seed {}: {}", seed, over ? "" : world.tale()));
    }
}
