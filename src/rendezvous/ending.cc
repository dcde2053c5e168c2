// SPDX-License-Identifier: Apache-2.0
// How a generation ends: the abort, the root cause, the budgets, and the end of the job.
#include "base/error.h"
#include "rendezvous/state.h"

#include <algorithm>

namespace ty::rendezvous {

using State = Rendezvous::State;

namespace {

constexpr int kPortRetries = 5;
constexpr std::size_t kKeptFailures = 64;

bool is_announced(Cause cause) {
    return cause == Cause::preemption || cause == Cause::resize;
}

}  // namespace

const Reported* Ending::root() const {
    const auto found = std::find_if(failures.begin(), failures.end(), [](const Reported& reported) {
        return !reported.failure.secondary;
    });
    if (found != failures.end()) return &*found;
    return failures.empty() ? nullptr : &failures.front();
}

/// Ends the running generation on every member. While one is being stopped already, its failures
/// only add to the search for the first cause; after an announced end they are echoes of it.
void State::stop(Cause cause, std::string why, std::optional<Reported> failure) {
    if (phase == Phase::stopping) {
        if (failure && !is_announced(ending.cause) && ending.failures.size() < kKeptFailures)
            ending.failures.push_back(std::move(*failure));
        return;
    }
    ending = Ending{cause, std::move(why), cause == Cause::application, {}};
    if (failure) ending.failures.push_back(std::move(*failure));
    phase = Phase::stopping;
    drain.reset();
    limbo_until.reset();
    growth_at.reset();
    stopping_since = now;
    for (const auto& [id, assignment] : assigned) {
        const Node* node = find(id);
        if (node != nullptr && node->running != 0)
            send(*node, down::Abort{node->running, cause, ending.why, ending.graceful});
    }
    out.record = true;
    note("abort", {{"generation", fmt::format("{}", generation)},
                   {"cause", std::string(to_string(cause))},
                   {"why", ending.why}});
}

/// A member went away with work unfinished.
void State::lost_member(Node& node, FailureKind kind, const std::string& how) {
    Failure failure;
    failure.kind = kind;
    failure.host = node.facts.host;
    failure.message = how;
    const std::string why = sentence(failure);
    note("lost", {{"node", node.id}, {"host", node.facts.host}, {"why", why}});
    if (node.leaving) {
        stop(Cause::preemption, why, std::nullopt);
        return;
    }
    stop(Cause::infrastructure, why, Reported{Cause::infrastructure, std::move(failure), false});
    if (kind != FailureKind::node_lost || !fails_fast()) return;
    const Reported* root = ending.root();
    end(Verdict::failed, root->cause, sentence(root->failure), root);
}

std::optional<int> State::budget(Cause cause) const {
    if (const auto given = policy.budgets.find(cause); given != policy.budgets.end())
        return given->second;
    if (cause == Cause::application || cause == Cause::hang) return policy.max_restarts;
    return std::nullopt;
}

/// False when there is nothing left to pay this restart with.
bool State::charge(Cause cause, const Reported* root) {
    if (root != nullptr && root->failure.kind == FailureKind::not_started) return false;
    if (root != nullptr && root->failure.kind == FailureKind::port_in_use)
        return ++port_retries <= kPortRetries;
    port_retries = 0;
    if (policy.counting == Counting::torchrun) {
        if (root == nullptr || !root->by_worker) return true;
        if (worker_restarts >= policy.max_restarts) return false;
        ++worker_restarts;
    } else if (const std::optional<int> limit = budget(cause); limit && spent[cause] >= *limit) {
        return false;
    }
    ++spent[cause];
    return true;
}

/// Every node that can answer has stopped: the causes are known.
void State::settle() {
    const Reported* root = ending.root();
    const Cause cause = root != nullptr ? root->cause : ending.cause;
    if (!charge(cause, root))
        return end(Verdict::failed, cause, root ? sentence(root->failure) : ending.why, root);
    ending.cause = cause;
    phase = Phase::gathering;
    gathering_since = now;
    stopping_since.reset();
    min_reached.reset();
    out.record = true;
    dismiss_leaving();
}

void State::end(Verdict verdict, Cause cause, std::string why, const Reported* root) {
    finish = down::Finish{verdict, cause, std::move(why),
                          root != nullptr ? std::optional(root->failure) : std::nullopt};
    phase = Phase::over;
    over_since = now;
    out.record = true;
    note("over", {{"verdict", std::string(to_string(verdict))},
                  {"cause", std::string(to_string(cause))},
                  {"why", finish.why}});
    for (auto& [id, node] : nodes)
        if (!node.dismissed) send(node, finish);
}

/// Leases and fences that have run out.
void State::silence() {
    while (!leases.empty() && now >= leases.front()->last_heard + policy.lease) {
        Node& node = *leases.front();
        change(node, [&] {
            node.silent = node.doubted = true;
            watch(node, node.running != 0 ? Watch::fencing : Watch::none);
        });
        note("silent", {{"node", node.id}, {"host", node.facts.host}});
        if ((is_active() || phase == Phase::stopping) && is_working(node))
            lost_member(node, FailureKind::node_silent, {});
        if (!node.connected && !node.member && node.watch == Watch::none)
            erase(std::string(node.id));
    }
    while (!fences.empty() &&
           now >= fences.front()->last_heard + policy.fence + policy.fence_margin) {
        Node& node = *fences.front();
        change(node, [&] { watch(node, Watch::none); });
        if (!node.connected && !node.member) erase(std::string(node.id));
    }
    const bool impatient = phase == Phase::stopping && !policy.standing;
    if (impatient && now >= *stopping_since + policy.join_timeout) fail_waiting();
}

/// A member came back without its workers and nothing explained it.
void State::expire_limbo() {
    if (!limbo_until || now < *limbo_until) return;
    limbo_until.reset();
    for (const auto& [id, assignment] : assigned) {
        Node* node = find(id);
        if (node == nullptr || node->succeeded || node->running == generation) continue;
        if (is_active())
            lost_member(*node, FailureKind::node_silent, "it came back without its workers");
        return;
    }
}

}  // namespace ty::rendezvous
