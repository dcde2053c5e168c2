// SPDX-License-Identifier: Apache-2.0
// From gathering to running: when a generation may start, with whom, and what each node is told.
#include "base/error.h"
#include "rendezvous/state.h"

#include <algorithm>

namespace ty::rendezvous {

using State = Rendezvous::State;

namespace {

constexpr std::size_t kSuccessors = 3;

std::string in_seconds(milliseconds duration) {
    return duration.count() % 1000 == 0 ? fmt::format("{} s", duration.count() / 1000)
                                        : fmt::format("{} ms", duration.count());
}

}  // namespace

/// No worker of an earlier generation can be running anywhere.
bool State::is_clear() const {
    return tally.busy == 0 && tally.awaited == 0 && fences.empty() &&
           (!hold_until || now >= *hold_until);
}

/// Most of those who could also be forming a generation elsewhere are here. An even split counts
/// only for the coordinator that has been it all along: the two halves must not both go on.
bool State::has_quorum() const {
    if (policy.standing) return true;  // there is no elsewhere
    if (unrecorded_nodes > 0) {
        int present = 0;
        for (const auto& [id, node] : nodes)
            present += node.connected && !node.silent && node.newest == generation;
        return policy.needs_majority ? 2 * present > unrecorded_nodes
                                     : 2 * present >= unrecorded_nodes;
    }
    if (tally.quorum == 0) return true;
    return policy.needs_majority ? 2 * tally.present > tally.quorum
                                 : 2 * tally.present >= tally.quorum;
}

/// A standing job's nodes come together at the beginning; later each comes for one that was lost.
milliseconds State::last_call() const {
    constexpr milliseconds kLater{1000};
    return policy.standing && generation > 0 ? std::min(policy.last_call, kLater)
                                             : policy.last_call;
}

/// With growth forbidden, the places there have been.
int State::capacity() const {
    if (policy.resize != ResizeWhen::never || generation == 0 || seats.empty())
        return policy.max_nodes;
    return std::clamp(static_cast<int>(seats.size()), policy.min_nodes, policy.max_nodes);
}

/// Without restarts a job that has fallen below its minimum does not wait for replacements, unless
/// its nodes were taken away with notice. Silent nodes may still come back until they are fenced.
bool State::fails_fast() const {
    const bool announced = ending.cause == Cause::preemption || ending.cause == Cause::resize;
    return !policy.standing && policy.max_restarts == 0 && !assigned.empty() && !announced &&
           tally.usable + static_cast<int>(fences.size()) < policy.min_nodes;
}

void State::try_start() {
    const bool enough = has_enough();
    if (!enough)
        min_reached.reset();
    else if (!min_reached)
        min_reached = now;
    const bool possible = enough && is_clear() && has_quorum();
    if (possible) {
        const bool everybody = tally.ready >= capacity() ||
                               (policy.expected_nodes > 0 && tally.ready >= policy.expected_nodes);
        const bool survived = !assigned.empty() && tally.survivors >= policy.min_nodes;
        if (everybody || survived || now >= *min_reached + last_call()) return start();
        return;
    }
    if (enough && is_clear() && !noted_no_majority) {
        noted_no_majority = true;
        note("no_majority", {{"present", fmt::format("{}", tally.present)},
                             {"of", fmt::format("{}", tally.quorum)}});
    }
    if (fails_fast()) {
        const Reported* root = ending.root();
        return end(Verdict::failed, ending.cause, root ? sentence(root->failure) : ending.why,
                   root);
    }
    if (!policy.standing && now >= *gathering_since + policy.join_timeout) fail_waiting();
}

void State::fail_waiting() {
    const std::string waited = in_seconds(policy.join_timeout);
    std::string why;
    if (tally.busy > 0)
        why = fmt::format("{} of {} nodes did not stop the workers of generation {} within {}",
                          tally.busy, tally.busy + tally.ready, generation, waited);
    else if (!has_enough())
        why = fmt::format("only {} of at least {} nodes (at most {}) came within {}", tally.ready,
                          policy.min_nodes, policy.max_nodes, waited);
    else
        why = fmt::format("only {} of the {} nodes of generation {} could be reached within {}",
                          tally.present, tally.quorum, generation, waited);
    end(Verdict::failed, Cause::infrastructure, std::move(why), nullptr);
}

/// Survivors first, then who came first; group ranks are another matter (order_nodes).
void State::start() {
    std::vector<Node*> ready;
    ready.reserve(static_cast<std::size_t>(tally.ready));
    for (auto& [id, node] : nodes)
        if (node.connected && !node.silent && node.running == 0 && !node.leaving && !node.dismissed)
            ready.push_back(&node);
    std::sort(ready.begin(), ready.end(), [](const Node* a, const Node* b) {
        return a->member != b->member ? a->member : a->arrival < b->arrival;
    });
    ready.resize(std::min(ready.size(), static_cast<std::size_t>(capacity())));

    std::vector<NodeFacts> arrived;
    arrived.reserve(ready.size());
    for (const Node* node : ready) arrived.push_back(node->facts);
    seats = seat_nodes(seats, arrived);
    for (auto node = nodes.begin(); node != nodes.end();) {
        Node& old = (node++)->second;
        change(old, [&] { old.member = old.succeeded = false; });
        if (!old.connected && old.watch == Watch::none) erase(std::string(old.id));
    }
    ++generation;
    std::vector<NodeFacts> ordered;
    ordered.reserve(ready.size());
    for (const std::string& id : seats) {
        if (id.empty()) continue;
        Node& node = nodes.at(id);
        change(node, [&] {
            node.member = true;
            node.running = node.newest = generation;
        });
        ordered.push_back(node.facts);
    }
    const Node& first = nodes.at(ordered.front().id);
    assign(
        ordered,
        policy.counting == Counting::torchrun ? worker_restarts : static_cast<int>(generation - 1),
        first.facts.address, first.master_port);
    phase = Phase::running;
    gathering_since.reset();
    min_reached.reset();
    hold_until.reset();
    unrecorded_nodes = 0;
    noted_no_majority = false;
    out.record = true;
    // Rank 0 first, the others connect to it. Then the successors' copies: once a second node has
    // started, somebody besides us should know that.
    for (const auto& [id, assignment] : assigned) {
        send(nodes.at(id), down::Start{assignment});
        if (assignment.group_rank == 0) send_snapshots();
    }
    note("started", {{"generation", fmt::format("{}", generation)},
                     {"nodes", fmt::format("{}", assigned.size())},
                     {"workers", fmt::format("{}", assigned.front().second.world_size)}});
    consider_growth();
}

void State::assign(const std::vector<NodeFacts>& ordered, int restart_count, std::string address,
                   int port) {
    Assignment common;
    common.generation = generation;
    common.restart_count = restart_count;
    common.group_world_size = static_cast<int>(ordered.size());
    common.master_address = std::move(address);
    common.master_port = port;
    common.world_size = 0;
    std::map<std::string, int> role_sizes;
    for (const NodeFacts& facts : ordered) {
        common.world_size += facts.workers;
        role_sizes[facts.role] += facts.workers;
        if (facts.successor_port != 0 && common.successors.size() < kSuccessors)
            common.successors.push_back({facts.id, facts.address, facts.successor_port});
    }
    assigned.clear();
    assigned.reserve(ordered.size());
    int rank = 0;
    std::map<std::string, int> role_ranks;
    for (const NodeFacts& facts : ordered) {
        Assignment own = common;
        own.group_rank = static_cast<int>(assigned.size());
        own.first_rank = rank;
        own.first_role_rank = role_ranks[facts.role];
        own.role_world_size = role_sizes[facts.role];
        rank += facts.workers;
        role_ranks[facts.role] += facts.workers;
        assigned.emplace_back(facts.id, std::move(own));
    }
}

}  // namespace ty::rendezvous
