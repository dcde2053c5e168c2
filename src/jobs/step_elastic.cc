// SPDX-License-Identifier: Apache-2.0
// Elastic jobs: nodes that come, go and are replaced within one attempt.
#include "base/error.h"
#include "jobs/stepper.h"

#include <algorithm>
#include <set>

namespace ty::jobs {

namespace {

constexpr milliseconds kScaleNotice{120'000};
constexpr seconds kStubborn{60};  // between tries to add a node to those that run

}  // namespace

void Stepper::add_node(Attempt& attempt, const std::string& host, std::int64_t epoch) {
    const int count = ++attempt.agents[host];
    Node& node = attempt.nodes[count == 1 ? host : fmt::format("{}~{}", host, count)];
    node.host = host;
    node.wanted = now_;
    node.epoch = epoch;
}

bool Stepper::is_concluding(const Attempt& attempt) const {
    using Kind = plan::Outcome::Kind;
    return std::ranges::any_of(attempt.nodes, [](const NodeEntry& entry) {
        const Node& node = entry.second;
        if (node.collected) return true;
        return node.finished &&
               (node.finished->kind == Kind::completed || node.finished->kind == Kind::stopped ||
                node.finished->kind == Kind::timed_out);
    });
}

/// Launch what is missing: the lowest hosts that nobody is.
void Stepper::refill(Attempt& attempt) {
    if (is_stopping() || !attempt.interrupted.empty() || !attempt.first_failed.empty() ||
        is_concluding(attempt))
        return;
    if (attempt.not_before && *attempt.not_before > now_) return;
    std::set<int> taken;
    for (const auto& [name, node] : attempt.nodes)
        if (is_active(node)) taken.insert(host_number(node.host));
    int missing = job_.instances - static_cast<int>(taken.size());
    if (missing <= 0) return;
    attempt.not_before.reset();
    const std::int64_t epoch = next_epoch();
    for (int i = 1; missing > 0; ++i) {
        if (taken.contains(i)) continue;
        add_node(attempt, fmt::format("algo-{}", i), epoch);
        --missing;
    }
    effects_.push_back(Launch{attempt.id});
    changed_ = true;
    if (job_.secondary() == Secondary::interrupted)
        enter(Secondary::starting, "Preparing the instances for training", now_);
}

void Stepper::drop_node(Attempt& attempt, NodeEntry& entry, const std::string& why, bool announced,
                        Instant at) {
    auto& [name, node] = entry;
    changed_ = true;
    effects_.push_back(ReleaseNode{attempt.id, name});
    const bool wanted =
        !is_stopping() && attempt.interrupted.empty() && attempt.first_failed.empty();
    if (!wanted) return settle(attempt, at);
    if (is_concluding(attempt)) {
        // The program is over and what this node made of it is lost: the end is made again, from
        // the last checkpoint. A node that left by itself had no part in it any more.
        const bool lost = node.finished->kind == plan::Outcome::Kind::agent_error;
        const bool had_results = node.phase && *node.phase >= plan::Phase::training;
        if (lost && had_results && !node.collected)
            return interrupt(attempt, node.host, why, kFarewell);
        return settle(attempt, at);
    }
    const bool alone =
        std::ranges::none_of(attempt.nodes, [](const NodeEntry& n) { return is_active(n.second); });
    const bool trained = node.phase && *node.phase >= plan::Phase::training;
    if (!announced && !trained && !bear_fruitless(attempt)) {
        if (alone) {
            attempt.first_failed = name;
            return settle(attempt, at);
        }
        attempt.not_before = now_ + kStubborn;
    }
    const bool trains = std::ranges::any_of(attempt.nodes, [](const NodeEntry& n) {
        return is_active(n.second) && n.second.phase == plan::Phase::training;
    });
    if (alone || (job_.secondary() == Secondary::training && !trains))
        enter(
            Secondary::interrupted,
            fmt::format("Training job interrupted on {}: {}; it goes on when an instance is there",
                        node.host, why),
            at);
    else if (job_.secondary() == Secondary::training)
        say(fmt::format("{}: {} left ({})", crew_message(attempt), node.host, why));
    refill(attempt);
    if (job_.secondary() == Secondary::interrupted && !alone)
        enter(Secondary::starting, "Preparing the instances for training", now_);
    if (job_.secondary() == Secondary::starting) show(attempt, {}, at);
}

std::string Stepper::crew_message(const Attempt& attempt) const {
    const auto training = std::ranges::count_if(attempt.nodes, [](const NodeEntry& entry) {
        return is_active(entry.second) && entry.second.phase == plan::Phase::training;
    });
    return fmt::format("Training on {} of {} instances", training, job_.instances);
}

void Stepper::operator()(const ScaleRequested& requested) {
    if (!is_elastic() || job_.status != Status::in_progress || job_.attempts.empty() ||
        job_.instances == requested.instances)
        return;
    const plan::Elastic& range = *job_.spec.node.elastic;
    if (requested.instances < range.min_nodes || requested.instances > range.max_nodes) return;
    job_.instances = requested.instances;
    changed_ = true;
    Attempt& attempt = last();
    if (attempt.ended || attempt.released || !attempt.interrupted.empty())
        return;  // the next has it
    shrink(attempt);
    refill(attempt);
    if (job_.secondary() == Secondary::training) say(crew_message(attempt));
}

/// The highest hosts leave; those that never began need not.
void Stepper::shrink(Attempt& attempt) {
    std::vector<NodeEntry*> staying;
    for (NodeEntry& entry : attempt.nodes)
        if (is_active(entry.second) && !is_leaving(entry.second)) staying.push_back(&entry);
    std::ranges::sort(staying, std::greater<>(),
                      [](const NodeEntry* entry) { return host_number(entry->second.host); });
    int surplus = static_cast<int>(staying.size()) - job_.instances;
    for (NodeEntry* entry : staying) {
        if (surplus-- <= 0) break;
        Node& node = entry->second;
        if (node.seen > 0 || node.launched) {
            leave(node, kScaleNotice, "scaled down");
            effects_.push_back(Wake{attempt.id});
            continue;
        }
        plan::Outcome never;
        never.kind = plan::Outcome::Kind::interrupted;
        node.finished = never;
        effects_.push_back(ReleaseNode{attempt.id, entry->first});
    }
}

}  // namespace ty::jobs
