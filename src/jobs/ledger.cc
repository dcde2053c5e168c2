// SPDX-License-Identifier: Apache-2.0
// See ledger.h. A node does one thing at a time; when that changes, the stretch behind it is closed
// into its class. Only training stays open to judgement, as stretches that a checkpoint, the end of
// the attempt or the end of the job settles.
#include "jobs/ledger.h"

#include <algorithm>
#include <cmath>

namespace ty::jobs {

namespace {

using Doing = LedgerNode::Doing;

/// The generation in a checkpoint's id, "<attempt>-<generation>-<sequence>-<node>".
std::optional<std::int64_t> generation_of(const std::string& id) {
    const std::size_t begin = id.find('-');
    if (begin == id.npos) return std::nullopt;
    std::int64_t value = 0;
    std::size_t i = begin + 1;
    for (; i < id.size() && i <= begin + 18 && id[i] >= '0' && id[i] <= '9'; ++i)
        value = value * 10 + (id[i] - '0');
    if (i == begin + 1 || i == id.size() || id[i] != '-') return std::nullopt;
    return value;
}

/// These ends come after a checkpoint: what it holds is not done again.
bool is_orderly(const std::string& cause) {
    return cause == "resize" || cause == "preemption";
}

class Keeper {
public:
    Keeper(Job& job, Instant now) : job_(job), state_(job.ledger), now_(now) {}

    void keep(const Stimulus& stimulus) {
        if (state_.closed) return;
        if (!job_.attempts.empty()) {
            open_attempt();
            const auto* event = std::get_if<AgentEvent>(&stimulus);
            if (event != nullptr && event->attempt != attempt().id) event = nullptr;
            for (const auto& [name, node] : attempt().nodes)
                update(name, node,
                       event != nullptr && event->event.host == name ? &event->event : nullptr);
            end_forgotten();
        }
        const bool over = is_terminal(job_.status);
        if (over) settle_rest();
        keep_waiting(over);
        state_.closed = over;
        std::erase_if(state_.nodes, [](const auto& entry) {
            return entry.second.doing == Doing::nothing && entry.second.unsettled.empty();
        });
    }

private:
    const Attempt& attempt() const { return job_.attempts.back(); }
    bool is_elastic() const { return job_.spec.node.elastic.has_value(); }
    /// When the job or its attempt ended, or now.
    Instant end() const {
        if (is_terminal(job_.status)) return std::min(now_, job_.transitions.back().start);
        if (!job_.attempts.empty() && attempt().ended) return std::min(now_, *attempt().ended);
        return now_;
    }

    void open_attempt() {
        if (attempt().number > state_.attempts) {
            for (auto& [name, node] : state_.nodes) {
                cut(node, now_);
                for (const Stretch& s : node.unsettled) state_.sums.lost += s.to - s.from;
                if (node.doing != Doing::nothing)
                    state_.last_end = std::max(state_.last_end, node.since);
            }
            state_.nodes.clear();
            if (state_.attempts > 0) state_.sums.restarts += attempt().number - state_.attempts;
            state_.attempts = attempt().number;
            state_.interrupted = false;
        }
        if (!attempt().interrupted.empty() && !state_.interrupted) {
            state_.interrupted = true;
            ++state_.sums.interruptions;
        }
    }

    // ---- one node

    void update(const std::string& name, const Node& node, const plan::Event* event) {
        auto found = state_.nodes.find(name);
        if (found == state_.nodes.end()) {
            if (is_over(node) || !node.launched) return;
            found = state_.nodes.emplace(name, LedgerNode()).first;
            found->second.since = found->second.marked = now_;
            found->second.doing = Doing::starting;
            if (name.find('~') != name.npos) ++state_.sums.restarts;
        }
        LedgerNode& known = found->second;
        Instant at = is_over(node) ? end() : now_;
        if (event != nullptr && event->seq > known.seen) {
            known.seen = event->seq;
            at = std::min(now_, event->time);
            std::visit([&](const auto& payload) { apply(known, payload, at); }, event->payload);
            known.marked = std::max(known.marked, at);
        }
        read_commands(known, node);
        turn(known, node, at);
    }

    /// Released nodes of an elastic attempt leave the job, not always after a word.
    void end_forgotten() {
        for (auto& [name, known] : state_.nodes) {
            if (known.doing == Doing::nothing || attempt().nodes.contains(name)) continue;
            cut(known, end());
            known.doing = Doing::nothing;
            state_.last_end = std::max(state_.last_end, known.since);
        }
    }

    bool is_over(const Node& node) const {
        return node.finished || node.released || attempt().ended || attempt().released ||
               is_terminal(job_.status);
    }

    void read_commands(LedgerNode& known, const Node& node) {
        for (; known.commands < node.commands.size(); ++known.commands) {
            const auto* order = std::get_if<plan::Interrupt>(&node.commands[known.commands]);
            if (order == nullptr || known.interrupted) continue;
            known.interrupted = true;
            if (is_elastic() && !state_.interrupted && !order->why.starts_with("scaled down"))
                ++state_.sums.interruptions;
        }
    }

    Doing doing_of(const LedgerNode& known, const Node& node) const {
        if (is_over(node) || !node.launched) return Doing::nothing;
        if (known.interrupted) return Doing::checkpointing;
        if (node.phase.value_or(plan::Phase::starting) < plan::Phase::training)
            return Doing::starting;
        const bool works = *node.phase == plan::Phase::training && !node.collected &&
                           (known.running || !is_elastic());
        return works ? Doing::training : Doing::idle;
    }

    void turn(LedgerNode& known, const Node& node, Instant at) {
        const Doing next = doing_of(known, node);
        if (next == known.doing) return;
        cut(known, at);
        known.doing = next;
        if (next != Doing::nothing) return;
        state_.last_end = std::max(state_.last_end, known.since);
        const bool vanished =
            node.finished && (node.finished->kind == plan::Outcome::Kind::agent_error ||
                              node.finished->kind == plan::Outcome::Kind::interrupted);
        if (is_elastic() && vanished && !known.interrupted && !state_.interrupted &&
            !is_terminal(job_.status))
            ++state_.sums.interruptions;
    }

    /// Close what the node did up to `at`; it goes on doing it. Its time never runs backwards.
    void cut(LedgerNode& known, Instant at) {
        if (at <= known.since) return;
        const Instant from = std::exchange(known.since, at);
        switch (known.doing) {
            case Doing::nothing:
                break;
            case Doing::starting:
                state_.sums.restart += at - from;
                break;
            case Doing::training:
                known.unsettled.push_back({from, at, known.generation, false});
                break;
            case Doing::idle:
                state_.sums.idle += at - from;
                break;
            case Doing::checkpointing:
                state_.sums.checkpoint += at - from;
                break;
        }
    }

    // ---- what its events say

    template <typename Other>
    void apply(LedgerNode&, const Other&, Instant) {}  // shown by the node's state

    /// What the node did since its last event was the restoring.
    void apply(LedgerNode& known, const plan::CheckpointRestored&, Instant at) {
        if (known.doing != Doing::starting && known.doing != Doing::idle) return;
        cut(known, std::min(known.marked, at));
        const Doing before = std::exchange(known.doing, Doing::checkpointing);
        cut(known, at);
        known.doing = before;
    }

    void apply(LedgerNode& known, const plan::GenerationChanged& changed, Instant at) {
        if (!is_elastic() || changed.generation < known.generation) return;
        cut(known, at);
        known.generation = changed.generation;
        known.running = changed.running;
        for (auto& [name, node] : state_.nodes) {
            if (changed.running)
                supersede(node, changed.generation);
            else if (!is_orderly(changed.cause))
                mark_lost(node, changed.generation + 1);
        }
    }

    static void mark_lost(LedgerNode& node, std::int64_t before) {
        for (Stretch& s : node.unsettled) s.ended_badly |= s.generation < before;
    }

    /// A generation began from a checkpoint: what that does not hold is done again. The previous
    /// one's last checkpoint may be reported by another node a moment later.
    void supersede(LedgerNode& node, std::int64_t generation) {
        std::erase_if(node.unsettled, [&](const Stretch& s) {
            const bool final = s.ended_badly && s.generation + 1 < generation;
            if (final) state_.sums.lost += s.to - s.from;
            return final;
        });
        mark_lost(node, generation);
    }

    void apply(LedgerNode& known, const plan::CheckpointCommitted& committed, Instant) {
        const std::int64_t generation =
            is_elastic() ? generation_of(committed.id).value_or(known.generation) : 0;
        const Instant taken = std::min(committed.taken, now_);
        for (auto& [name, node] : state_.nodes) {
            if (node.doing == Doing::training) cut(node, taken);
            std::erase_if(node.unsettled, [&](Stretch& s) {
                if (s.generation < generation) state_.sums.lost += s.to - s.from;
                if (s.generation != generation || s.from >= taken) return s.generation < generation;
                const Instant upto = std::min(s.to, taken);
                state_.sums.useful += upto - s.from;
                s.from = upto;
                return s.from == s.to;
            });
        }
    }

    // ---- the job

    /// Results are kept unless the job failed or its last attempt was interrupted.
    void settle_rest() {
        const bool kept = job_.status != Status::failed &&
                          (job_.attempts.empty() || attempt().interrupted.empty());
        for (auto& [name, node] : state_.nodes) {
            for (const Stretch& s : node.unsettled)
                (kept && !s.ended_badly ? state_.sums.useful : state_.sums.lost) += s.to - s.from;
            node.unsettled.clear();
        }
    }

    void keep_waiting(bool over) {
        const bool live = std::ranges::any_of(
            state_.nodes, [](const auto& entry) { return entry.second.doing != Doing::nothing; });
        if (!live && !over && !state_.waiting)
            state_.waiting = state_.last_end == Instant() ? now_ : state_.last_end;
        if ((!live && !over) || !state_.waiting) return;
        const Instant until = over ? end() : now_;
        state_.sums.waiting += std::max(until - *state_.waiting, milliseconds(0));
        state_.waiting.reset();
    }

    Job& job_;
    LedgerState& state_;
    const Instant now_;
};

}  // namespace

void keep_ledger(Job& job, const Stimulus& stimulus, Instant now) {
    Keeper(job, now).keep(stimulus);
}

Ledger ledger_of(const LedgerState& state, Instant now) {
    Ledger sums = state.sums;
    for (const auto& [name, node] : state.nodes) {
        const milliseconds open = std::max(now - node.since, milliseconds(0));
        switch (node.doing) {
            case Doing::nothing:
                break;
            case Doing::starting:
                sums.restart += open;
                break;
            case Doing::training:
                sums.unsettled += open;
                break;
            case Doing::idle:
                sums.idle += open;
                break;
            case Doing::checkpointing:
                sums.checkpoint += open;
                break;
        }
        for (const Stretch& s : node.unsettled)
            (s.ended_badly ? sums.lost : sums.unsettled) += s.to - s.from;
    }
    if (state.waiting) sums.waiting += std::max(now - *state.waiting, milliseconds(0));
    return sums;
}

Ledger ledger_of(const Job& job, Instant now) {
    return ledger_of(job.ledger, now);
}

Ledger& Ledger::operator+=(const Ledger& other) {
    useful += other.useful;
    lost += other.lost;
    restart += other.restart;
    idle += other.idle;
    checkpoint += other.checkpoint;
    waiting += other.waiting;
    unsettled += other.unsettled;
    interruptions += other.interruptions;
    restarts += other.restarts;
    return *this;
}

std::int64_t billable_seconds(const Job& job, double ratio) {
    const auto trained = job.training_seconds();
    if (!trained) return 0;
    const double part = std::clamp(ratio, 0.0, 1.0) * static_cast<double>(*trained);
    return std::max<std::int64_t>(1, std::llround(part));
}

}  // namespace ty::jobs
