// SPDX-License-Identifier: Apache-2.0
// A job in a test's hands: nodes join and speak by name, time is a number of milliseconds, and what
// each node was told is kept.
#pragma once

#include "rendezvous/rendezvous.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace ty::rendezvous::testing {

inline Policy policy_of(int min_nodes, int max_nodes, int max_restarts = 0) {
    Policy policy;
    policy.run_id = "job";
    policy.min_nodes = min_nodes;
    policy.max_nodes = max_nodes;
    policy.max_restarts = max_restarts;
    return policy;
}

class Job {
public:
    explicit Job(Policy policy) : machine(std::move(policy)) {}
    explicit Job(Rendezvous restored, milliseconds at) : machine(std::move(restored)), now_(at) {}

    Monotonic at() const { return Monotonic(now_); }
    milliseconds elapsed() const { return now_; }

    up::Hello hello_of(const std::string& id, std::int64_t running = 0) const {
        up::Hello hello;
        hello.facts.id = id;
        hello.facts.host = "host-" + id;
        hello.facts.address = "10.0.0." + std::to_string(id.front());
        hello.facts.workers = 2;
        hello.facts.successor_port = 7000;
        hello.running = running;
        hello.master_port = 20000 + id.front();
        return hello;
    }
    void join(const std::string& id, std::int64_t running = 0) { hello(id, hello_of(id, running)); }
    void hello(const std::string& id, const up::Hello& hello) {
        if (std::find(here_.begin(), here_.end(), id) == here_.end()) here_.push_back(id);
        keep(machine.receive(id, hello, at()));
    }
    void say(const std::string& id, const Up& message) { keep(machine.receive(id, message, at())); }
    void stopped(const std::string& id) { say(id, up::Stopped{machine.generation(), 30000}); }
    void stop_all(const std::vector<std::string>& ids) {
        for (const std::string& id : ids) stopped(id);
    }
    void fail(const std::string& id, Cause cause = Cause::application,
              FailureKind kind = FailureKind::exit_code, bool secondary = false) {
        Failure failure;
        failure.kind = kind;
        failure.rank = failure.local_rank = 0;
        failure.exit_code = 1;
        failure.message = "from " + id;
        failure.secondary = secondary;
        say(id, up::Failed{machine.generation(), cause, failure});
    }
    void lose(const std::string& id, Lost how = Lost::closed) {
        std::erase(here_, id);
        keep(machine.lose(id, at(), how));
    }
    void mute(const std::string& id) { std::erase(here_, id); }

    /// Time passes; nodes that are here beat, and tick is called exactly when asked for.
    void pass(milliseconds duration) {
        const milliseconds end = now_ + duration;
        while (now_ < end) {
            milliseconds next = std::min(end, milliseconds((now_.count() / 250 + 1) * 250));
            const Deadline deadline = machine.next_deadline();
            if (!deadline.is_never())
                next = std::min(next, std::max(now_, std::chrono::ceil<milliseconds>(
                                                         deadline.point().time_since_epoch())));
            const bool due = !deadline.is_never() && deadline.point() <= Monotonic(next);
            const bool stuck = due && next == now_ && last_tick_ == now_;
            REQUIRE_MESSAGE(!stuck, "next_deadline did not move after a tick");
            now_ = next;
            if (due) {
                last_tick_ = now_;
                keep(machine.tick(at()));
            }
            if (now_.count() % 250 == 0)
                for (const std::string& id : std::vector<std::string>(here_)) say(id, up::Beat{1});
        }
    }

    template <typename Message>
    std::vector<Message> told(const std::string& id) const {
        std::vector<Message> found;
        for (const Effect& effect : sent)
            if (effect.to == id)
                if (const auto* message = std::get_if<Message>(&effect.message))
                    found.push_back(*message);
        return found;
    }
    template <typename Message>
    int count() const {
        return static_cast<int>(std::count_if(sent.begin(), sent.end(), [](const Effect& effect) {
            return std::holds_alternative<Message>(effect.message);
        }));
    }
    bool noted(const std::string& what) const {
        return std::any_of(notes.begin(), notes.end(),
                           [&what](const Effects::Note& note) { return note.what == what; });
    }
    std::vector<std::string> members() const {
        std::vector<std::string> ids;
        for (const auto& [id, assignment] : machine.view().members) ids.push_back(id);
        return ids;
    }
    /// The job's end as one node was told it.
    down::Finish finish_of(const std::string& id) const {
        const auto all = told<down::Finish>(id);
        REQUIRE(all.size() == 1);
        return all.front();
    }
    void forget() {
        sent.clear();
        notes.clear();
    }

    Rendezvous machine;
    std::vector<Effect> sent;
    std::vector<Effects::Note> notes;
    bool recorded = false;  ///< of the last call

private:
    void keep(Effects effects) {
        recorded = effects.record;
        for (Effect& effect : effects.messages) sent.push_back(std::move(effect));
        for (Effects::Note& note : effects.notes) notes.push_back(std::move(note));
    }
    milliseconds now_{1000}, last_tick_{-1};
    std::vector<std::string> here_;
};

using Ids = std::vector<std::string>;

inline Job running_job(Policy policy, const Ids& ids) {
    Job job(std::move(policy));
    for (const std::string& id : ids) job.join(id);
    if (job.machine.phase() == Phase::gathering) job.pass(seconds(3));
    REQUIRE(job.machine.phase() == Phase::running);
    job.forget();
    return job;
}

/// Every member's workers are gone.
inline void restart(Job& job) {
    for (const std::string& id : job.members()) job.stopped(id);
}

}  // namespace ty::rendezvous::testing
