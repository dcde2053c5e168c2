// SPDX-License-Identifier: Apache-2.0
// Announced changes: nodes that leave are waited for with a checkpoint, nodes that come are let in
// at a good moment.
#include "base/error.h"
#include "rendezvous/state.h"

#include <algorithm>

namespace ty::rendezvous {

using State = Rendezvous::State;

/// Asks every member for a checkpoint. Again only when the deadline or the cause became more
/// pressing: agents may count on few repetitions.
void State::start_drain(Cause cause, std::string why, Monotonic by) {
    if (drain && drain->cause == cause && drain->by <= by) return;
    if (drain) by = std::min(by, drain->by);
    drain = Drain{cause, std::move(why), by};
    phase = Phase::draining;
    growth_at.reset();
    for (const auto& [id, assignment] : assigned)
        if (const Node* node = find(id); node != nullptr && !node->dead) call_checkpoint(*node);
    out.record = true;
    note("draining", {{"generation", fmt::format("{}", generation)},
                      {"cause", std::string(to_string(cause))},
                      {"why", drain->why}});
}

void State::call_checkpoint(const Node& node) {
    const auto left = std::chrono::duration_cast<milliseconds>(drain->by - now);
    send(node, down::CheckpointNow{generation, std::max(left, milliseconds(0)), drain->cause,
                                   drain->why});
}

/// Leaving nodes without workers may go. When nobody else is left, the job is drained, unless
/// others will be sent.
void State::dismiss_leaving() {
    bool others = tally.usable > 0 || (assigned.empty() && policy.max_nodes > 1);
    for (const auto& [id, assignment] : assigned) {
        const Node* node = find(id);
        others = others || (node != nullptr && !node->dead && !node->leaving);
    }
    if (!others && phase == Phase::gathering && !policy.standing)
        return end(Verdict::drained, Cause::preemption, "every node has left: " + ending.why,
                   nullptr);
    for (auto& [id, node] : nodes) {
        if (!node.leaving || node.dismissed || node.running != 0 || !node.connected) continue;
        if (is_active() && node.member) continue;
        change(node, [&node = node] { node.dismissed = true; });
        send(node, down::Finish{Verdict::drained, Cause::preemption, "this node leaves the job",
                                std::nullopt});
    }
}

/// A node that could be taken in has appeared while a generation runs.
void State::note_newcomer(const Node& node) {
    const bool ready = node.connected && node.running == 0 && !node.leaving && !node.dismissed;
    if (!is_active() || node.member || !ready) return;
    last_newcomer = now;
    note("newcomer", {{"node", node.id}, {"host", node.facts.host}});
}

void State::consider_growth() {
    growth_at.reset();
    const bool room = static_cast<int>(assigned.size()) < policy.max_nodes;
    if (policy.resize == ResizeWhen::never || tally.newcomers == 0 || !room) return;
    if (tally.unfinished < static_cast<int>(assigned.size())) return;  // it is finishing
    if (policy.counting == Counting::by_cause)
        if (const auto limit = budget(Cause::resize); limit && spent[Cause::resize] >= *limit)
            return;
    Monotonic at = last_newcomer + policy.resize_debounce;
    for (const auto& [id, node] : nodes) {
        const bool ready = node.connected && !node.silent && node.running == 0 && !node.leaving &&
                           !node.dismissed && !node.member;
        if (ready && !node.warm) at = std::max(at, node.joined + policy.warm_timeout);
    }
    if (now < at) {
        growth_at = at;
        return;
    }
    std::string why = fmt::format("the job grows: {} more nodes have come", tally.newcomers);
    if (policy.resize == ResizeWhen::checkpoint)
        start_drain(Cause::resize, std::move(why), now + policy.resize_deadline);
    else
        stop(Cause::resize, std::move(why), std::nullopt);
}

}  // namespace ty::rendezvous
