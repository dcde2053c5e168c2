// SPDX-License-Identifier: Apache-2.0
#include "jobs/ledger.h"
#include "base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ty;
using namespace ty::jobs;
using namespace std::chrono_literals;

namespace {

constexpr Instant kStart{1'000'000'000ms};

/// A job moved by hand: what step() would make of each stimulus, and the ledger kept after it.
struct Book {
    Job job;
    Instant now = kStart;
    std::map<std::string, std::uint64_t> seq;

    explicit Book(bool elastic = false) {
        job.spec.spot = true;
        if (elastic) job.spec.node.elastic = plan::Elastic{};
        job.transitions = {{Secondary::starting, now, std::nullopt, ""}};
        job.created = now;
        attempt();
        keep(Created{});
    }

    void attempt() {
        Attempt next;
        next.number = static_cast<int>(job.attempts.size()) + 1;
        next.id = AttemptId("j-x." + std::to_string(next.number));
        job.attempts.push_back(next);
        seq.clear();
    }
    Attempt& current() { return job.attempts.back(); }
    Node& node(const std::string& name) { return current().nodes[name]; }
    void keep(const Stimulus& stimulus) { keep_ledger(job, stimulus, now); }
    void pass(milliseconds time) { now += time; }

    void place(const std::vector<std::string>& names) {
        for (const std::string& name : names) {
            node(name).host = name.substr(0, name.find('~'));
            node(name).launched = true;
        }
        keep(Placed{current().id});
    }
    /// What the node said `ago` before the daemon heard it.
    Stimulus say(const std::string& name, plan::Payload payload, milliseconds ago = 0ms) {
        Node& n = node(name);
        if (const auto* changed = std::get_if<plan::PhaseChanged>(&payload))
            n.phase = changed->phase;
        if (const auto* finished = std::get_if<plan::Finished>(&payload))
            n.finished = finished->outcome;
        if (const auto* collected = std::get_if<plan::Collected>(&payload))
            n.collected = *collected;
        const Stimulus heard =
            AgentEvent{current().id, {++seq[name], now - ago, name, std::move(payload)}};
        n.seen = seq[name];
        keep(heard);
        return heard;
    }
    void phase(const std::string& name, plan::Phase phase, milliseconds ago = 0ms) {
        say(name, plan::PhaseChanged{phase, ""}, ago);
    }
    Stimulus commit(const std::string& name, Instant taken, std::int64_t generation = 0) {
        return say(name, plan::CheckpointCommitted{
                             .id = format("000001-{:09}-000000001-{}", generation, name),
                             .step = {},
                             .taken = taken});
    }
    void generation(const std::string& name, std::int64_t number, const std::string& cause = "") {
        say(name, plan::GenerationChanged{number, 1, cause.empty(), cause});
    }
    void interrupt(const std::string& name, const std::string& why = "spot") {
        node(name).commands.push_back(plan::Interrupt{30s, why});
    }
    void end_node(const std::string& name, plan::Outcome::Kind kind) {
        node(name).finished = plan::Outcome{.kind = kind, .reason = {}, .exit_code = {}};
    }
    void end(Status status) {
        job.status = status;
        job.transitions.push_back({Secondary::completed, now, now, ""});
        keep(TimePassed{});
    }
    Ledger sums() const { return ledger_of(job, now); }
};

}  // namespace

TEST_CASE("an undisturbed job: waiting, restart, training that becomes useful, idle for results") {
    Book book;
    book.pass(5s);
    book.place({"algo-1"});
    book.pass(2s);
    book.phase("algo-1", plan::Phase::downloading);
    book.pass(3s);
    book.phase("algo-1", plan::Phase::training);
    book.pass(60s);
    CHECK(book.sums().unsettled == 60s);
    CHECK(book.sums().useful == 0s);
    book.phase("algo-1", plan::Phase::uploading);
    book.pass(1s);
    book.end(Status::completed);
    book.pass(100s);
    const Ledger sums = book.sums();
    CHECK(sums.waiting == 5s);
    CHECK(sums.restart == 5s);
    CHECK(sums.useful == 60s);
    CHECK(sums.idle == 1s);
    CHECK(sums.unsettled == 0s);
    CHECK(sums.billed() == 66s);
    CHECK(sums.interruptions == 0);
}

TEST_CASE("classes change when the node says they did, not when the daemon hears of it") {
    Book book;
    book.place({"algo-1"});
    book.pass(10s);
    book.phase("algo-1", plan::Phase::training, 7s);
    CHECK(book.sums().restart == 3s);
    CHECK(book.sums().unsettled == 7s);
    book.pass(1s);
    book.phase("algo-1", plan::Phase::uploading, 30s);  // a clock that jumped: never backwards
    CHECK(book.sums().restart == 3s);
    CHECK(book.sums().billed() == 11s);
}

TEST_CASE("a checkpoint makes training useful up to the moment it was taken, on every node") {
    Book book;
    book.place({"algo-1", "algo-2"});
    book.phase("algo-1", plan::Phase::training);
    book.phase("algo-2", plan::Phase::training);
    book.pass(20s);
    const Stimulus heard = book.commit("algo-1", book.now - 4s);
    CHECK(book.sums().useful == 32s);
    CHECK(book.sums().unsettled == 8s);
    const LedgerState before = book.job.ledger;
    book.keep(heard);
    CHECK(book.job.ledger == before);
}

TEST_CASE("an interrupted attempt loses what no checkpoint holds; the notice is checkpoint time") {
    Book book;
    book.place({"algo-1"});
    book.phase("algo-1", plan::Phase::training);
    book.pass(20s);
    book.commit("algo-1", book.now);
    book.pass(5s);
    book.current().interrupted = "spot capacity went away";
    book.interrupt("algo-1");
    book.keep(FaultRequested{});
    book.pass(2s);
    SUBCASE("the last checkpoint saves the rest") {
        book.commit("algo-1", book.now);
        book.end_node("algo-1", plan::Outcome::Kind::interrupted);
        book.keep(TimePassed{});
        book.pass(3s);
        book.attempt();
        book.keep(Released{});
        CHECK(book.sums().useful == 25s);
        CHECK(book.sums().lost == 0s);
    }
    SUBCASE("without one it is lost when the next attempt begins") {
        book.end_node("algo-1", plan::Outcome::Kind::interrupted);
        book.keep(TimePassed{});
        book.pass(3s);
        CHECK(book.sums().unsettled == 5s);
        book.attempt();
        book.keep(Released{});
        CHECK(book.sums().useful == 20s);
        CHECK(book.sums().lost == 5s);
    }
    CHECK(book.sums().checkpoint == 2s);
    CHECK(book.sums().waiting == 3s);
    CHECK(book.sums().interruptions == 1);
    CHECK(book.sums().restarts == 1);
    book.pass(1s);
    book.place({"algo-1"});
    CHECK(book.sums().waiting == 4s);
}

TEST_CASE("restoring a checkpoint is counted apart from the start around it") {
    Book book;
    book.place({"algo-1"});
    book.pass(2s);
    book.phase("algo-1", plan::Phase::downloading);
    book.pass(6s);
    book.say("algo-1", plan::CheckpointRestored{}, 1s);
    CHECK(book.sums().checkpoint == 5s);
    CHECK(book.sums().restart == 3s);
}

TEST_CASE("a stopped job keeps its results, a failed one does not") {
    for (const Status status : {Status::stopped, Status::failed}) {
        Book book;
        book.place({"algo-1"});
        book.phase("algo-1", plan::Phase::training);
        book.pass(9s);
        book.end(status);
        CHECK(book.sums().useful == (status == Status::stopped ? 9s : 0s));
        CHECK(book.sums().lost == (status == Status::stopped ? 0s : 9s));
    }
}

TEST_CASE("a job that ended keeps its ledger whatever comes") {
    Book book;
    book.place({"algo-1"});
    book.phase("algo-1", plan::Phase::training);
    book.pass(9s);
    book.end(Status::completed);
    const LedgerState before = book.job.ledger;
    book.pass(1h);
    book.commit("algo-1", book.now);
    book.attempt();
    book.keep(TimePassed{});
    CHECK(book.job.ledger == before);
    CHECK(book.sums().billed() == 9s);
}

TEST_CASE("an elastic node that trains without a generation is idle") {
    Book book(true);
    book.place({"algo-1", "algo-2"});
    for (const char* name : {"algo-1", "algo-2"}) book.phase(name, plan::Phase::training);
    book.pass(3s);
    for (const char* name : {"algo-1", "algo-2"}) book.generation(name, 1);
    book.pass(10s);
    CHECK(book.sums().idle == 6s);
    CHECK(book.sums().unsettled == 20s);
    SUBCASE("a resize loses nothing that its checkpoint holds") {
        book.commit("algo-1", book.now, 1);
        for (const char* name : {"algo-1", "algo-2"}) book.generation(name, 1, "resize");
        book.pass(1s);
        for (const char* name : {"algo-1", "algo-2"}) book.generation(name, 2);
        CHECK(book.sums().useful == 20s);
        CHECK(book.sums().lost == 0s);
        CHECK(book.sums().idle == 8s);
    }
    SUBCASE("a failure loses what follows the checkpoint") {
        book.commit("algo-1", book.now - 4s, 1);
        for (const char* name : {"algo-1", "algo-2"}) book.generation(name, 1, "application");
        CHECK(book.sums().useful == 12s);
        CHECK(book.sums().lost == 8s);
    }
    SUBCASE("a checkpoint of the old generation that is heard of late still saves it") {
        book.generation("algo-2", 1, "node lost");
        book.generation("algo-1", 1, "node lost");
        CHECK(book.sums().lost == 20s);
        book.pass(1s);
        book.generation("algo-2", 2);
        book.commit("algo-1", book.now - 1s, 1);
        CHECK(book.sums().useful == 20s);
        CHECK(book.sums().lost == 0s);
    }
    SUBCASE("without checkpoints every generation starts from nothing") {
        for (std::int64_t g = 1; g <= 5; ++g) {
            for (const char* name : {"algo-1", "algo-2"}) book.generation(name, g, "resize");
            for (const char* name : {"algo-1", "algo-2"}) book.generation(name, g + 1);
            book.pass(10s);
        }
        CHECK(book.job.ledger.nodes.at("algo-1").unsettled.size() <= 2);
        book.end(Status::completed);
        CHECK(book.sums().lost == 100s);
        CHECK(book.sums().useful == 20s);
    }
}

TEST_CASE("an elastic job counts lost nodes and their replacements, not scaling down") {
    Book book(true);
    book.place({"algo-1", "algo-2", "algo-3"});
    book.end_node("algo-2", plan::Outcome::Kind::agent_error);
    book.keep(AgentGone{book.current().id, "algo-2", "SIGKILL"});
    CHECK(book.sums().interruptions == 1);
    book.place({"algo-2~2"});
    CHECK(book.sums().restarts == 1);
    book.interrupt("algo-3", "scaled down");
    book.keep(ScaleRequested{2});
    book.end_node("algo-3", plan::Outcome::Kind::interrupted);
    book.keep(TimePassed{});
    CHECK(book.sums().interruptions == 1);
    book.interrupt("algo-1", "spot");
    book.keep(FaultRequested{});
    book.end_node("algo-1", plan::Outcome::Kind::interrupted);
    book.keep(TimePassed{});
    CHECK(book.sums().interruptions == 2);
}

TEST_CASE("a node that the job forgets is over") {
    Book book(true);
    book.place({"algo-1", "algo-2"});
    book.pass(3s);
    book.current().nodes.erase("algo-2");
    book.keep(Released{});
    book.pass(3s);
    CHECK(book.sums().restart == 9s);
}

TEST_CASE("attempts are told apart by their numbers: old ones are forgotten") {
    Book book;
    for (int i = 0; i < 5; ++i) {
        book.place({"algo-1"});
        book.phase("algo-1", plan::Phase::training);
        book.pass(1s);
        book.end_node("algo-1", plan::Outcome::Kind::interrupted);
        book.keep(TimePassed{});
        book.attempt();
        book.job.attempts.back().number = i + 2;
        if (book.job.attempts.size() > 2) book.job.attempts.erase(book.job.attempts.begin());
        book.keep(Released{});
    }
    CHECK(book.sums().restarts == 5);
    CHECK(book.sums().lost == 5s);
}

TEST_CASE("the stored form gives the ledger back") {
    Book book(true);
    book.place({"algo-1", "algo-2"});
    book.phase("algo-1", plan::Phase::training);
    book.generation("algo-1", 3);
    book.pass(10s);
    book.generation("algo-1", 3, "application");
    book.interrupt("algo-2");
    book.keep(FaultRequested{});
    CHECK(ledger_from_json(to_json(book.job.ledger)) == book.job.ledger);
    CHECK(ledger_from_json(to_json(LedgerState{})) == LedgerState{});
    CHECK_THROWS_AS(ledger_from_json("{}"), Error);
    CHECK_THROWS_AS(ledger_from_json("[1"), Error);
}

TEST_CASE("billable seconds follow the price ratio, and are whole and at least one") {
    Job job;
    CHECK(billable_seconds(job, 1) == 0);
    job.training_start = kStart;
    job.training_end = kStart + 100s;
    job.trained = 100s;
    CHECK(billable_seconds(job, 1) == 100);
    CHECK(billable_seconds(job, 0.3) == 30);
    CHECK(billable_seconds(job, 0.001) == 1);
    CHECK(billable_seconds(job, 7) == 100);
}

namespace {

/// Random lives of random jobs. What was alive when is added up beside the ledger.
struct Chaos {
    std::mt19937_64 random;
    bool elastic;
    Book book{elastic};
    std::map<std::string, Instant> alive;  ///< since
    milliseconds lived{0}, bare{0};        ///< instance-time, time without an instance
    std::vector<Stimulus> heard;
    std::int64_t generation = 0;
    int names = 2;

    Chaos(std::uint64_t seed, bool is_elastic) : random(seed), elastic(is_elastic) {}

    std::uint64_t draw(std::uint64_t below) { return random() % below; }
    void pass() {
        const milliseconds time(draw(5000));
        if (alive.empty()) bare += time;
        book.pass(time);
    }
    void start(const std::string& name) {
        book.place({name});
        alive[name] = book.now;
    }
    void gone(std::string name) {
        lived += book.now - alive.at(name);
        alive.erase(name);
        book.end_node(name, plan::Outcome::Kind::agent_error);
        book.keep(AgentGone{book.current().id, name, ""});
    }
    std::string any() {
        auto it = alive.begin();
        std::advance(it, static_cast<long>(draw(alive.size())));
        return it->first;
    }
    void next_attempt() {
        while (!alive.empty()) gone(alive.begin()->first);
        book.current().interrupted = "drawn";
        book.attempt();
        book.keep(Released{});
        heard.clear();
        generation = 0;
    }
    void move() {
        if (alive.empty() || draw(20) == 0) return start(format("algo-{}", ++names));
        const std::string name = any();
        switch (draw(9)) {
            case 0:
                return gone(name);
            case 1:
                return next_attempt();
            case 2:
                heard.push_back(book.commit(name, book.now - milliseconds(draw(8000)), generation));
                return;
            case 3:
                heard.push_back(book.say(name, plan::CheckpointRestored{}));
                return;
            case 4:
                book.interrupt(name);
                return book.keep(FaultRequested{});
            case 5:
                heard.push_back(book.say(name, plan::GenerationChanged{++generation, 1, true, ""}));
                return;
            case 6:
                heard.push_back(book.say(
                    name, plan::GenerationChanged{generation, 1, false,
                                                  draw(2) == 0 ? "resize" : "application"}));
                return;
            default: {
                const plan::Phase now = book.node(name).phase.value_or(plan::Phase::starting);
                const auto next = std::min(static_cast<int>(now) + 1, 3);
                heard.push_back(book.say(name,
                                         plan::PhaseChanged{static_cast<plan::Phase>(next), ""},
                                         milliseconds(draw(2000))));
            }
        }
    }
    void check() {
        milliseconds living = lived;
        for (const auto& [name, since] : alive) living += book.now - since;
        const Ledger sums = book.sums();
        REQUIRE(sums.billed() == living);
        REQUIRE(sums.waiting == bare);
        for (const milliseconds part :
             {sums.useful, sums.lost, sums.restart, sums.idle, sums.checkpoint, sums.unsettled})
            REQUIRE(part >= 0ms);
    }
};

}  // namespace

TEST_CASE("every millisecond of every instance is in exactly one class, whatever happens") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Chaos chaos(seed, seed % 2 == 0);
        Ledger last;
        for (int i = 0; i < 120; ++i) {
            chaos.pass();
            chaos.move();
            CAPTURE(seed);
            CAPTURE(i);
            chaos.check();
            if (chaos.heard.empty()) continue;
            const LedgerState before = chaos.book.job.ledger;
            chaos.book.keep(chaos.heard[chaos.draw(chaos.heard.size())]);
            REQUIRE(chaos.book.job.ledger == before);
            REQUIRE(ledger_from_json(to_json(before)) == before);
            REQUIRE(before.sums.useful >= last.useful);
            last = before.sums;
        }
        chaos.pass();
        chaos.book.end(Status::completed);
        chaos.check();
        CHECK(chaos.book.sums().unsettled == 0ms);
    }
}
