// SPDX-License-Identifier: Apache-2.0
// What agents say, that they are gone, and what both mean for the job.
#include "base/error.h"
#include "base/text.h"
#include "jobs/stepper.h"

#include <algorithm>

namespace ty::jobs {

namespace {

std::string_view default_message(plan::Phase phase) {
    switch (phase) {
        case plan::Phase::starting:
            return "Preparing the instances for training";
        case plan::Phase::downloading:
            return "Downloading input data";
        case plan::Phase::training:
            return "Training image download completed. Training in progress.";
        case plan::Phase::uploading:
            return "Uploading generated training model";
    }
    return {};
}

Secondary secondary_of(plan::Phase phase) {
    switch (phase) {
        case plan::Phase::starting:
            return Secondary::starting;
        case plan::Phase::downloading:
            return Secondary::downloading;
        case plan::Phase::training:
            return Secondary::training;
        case plan::Phase::uploading:
            return Secondary::uploading;
    }
    return Secondary::starting;
}

std::string in_brackets(const std::string& ending) {
    return ending.empty() ? "" : " (" + ending + ")";
}

bool has_results(const Node& node) {
    return node.collected && (node.collected->model || node.collected->output);
}

/// It was told that another has joined the results: nothing of it is missing.
bool is_dismissed(const Node& node) {
    return std::ranges::any_of(node.commands, [](const plan::Command& command) {
        const auto* finish = std::get_if<plan::Finish>(&command);
        return finish != nullptr && finish->parts.empty();
    });
}

bool has_finish(const Node& node) {
    return std::ranges::any_of(node.commands, [](const plan::Command& command) {
        return std::holds_alternative<plan::Finish>(command);
    });
}

}  // namespace

void Stepper::operator()(const AgentEvent& event) {
    Attempt* attempt = current(event.attempt);
    if (attempt == nullptr) return;
    const auto found = attempt->nodes.find(event.event.host);
    if (found == attempt->nodes.end() || event.event.seq <= found->second.seen) return;
    Node& node = found->second;
    node.seen = event.event.seq;
    node.launched = true;
    attempt->launched = true;
    noted_ = true;
    // Of a node that is taken for lost, only what it has put into storage still counts.
    if (node.finished && !std::holds_alternative<plan::CheckpointCommitted>(event.event.payload))
        return;
    std::visit([&](const auto& payload) { apply(*attempt, *found, event.event, payload); },
               event.event.payload);
}

void Stepper::apply(Attempt&, NodeEntry&, const plan::Event&, const plan::AgentUp&) {
    changed_ = true;
}

void Stepper::apply(Attempt& attempt, NodeEntry& entry, const plan::Event& event,
                    const plan::PhaseChanged& changed) {
    Node& node = entry.second;
    if (node.phase && changed.phase < *node.phase) return;
    node.phase = changed.phase;
    if (changed.phase >= plan::Phase::training) job_.fruitless = 0;
    show(attempt, changed.message, event.time);
}

void Stepper::apply(Attempt& attempt, NodeEntry& entry, const plan::Event& event,
                    const plan::Finished& finished) {
    using Kind = plan::Outcome::Kind;
    auto& [name, node] = entry;
    const std::string host = node.host;
    const bool announced = is_leaving(node);
    node.finished = finished.outcome;
    if (finished.outcome.kind != Kind::interrupted) node.phase = plan::Phase::uploading;
    job_.model_uploaded |= finished.model_uploaded;
    changed_ = true;
    const std::string& reason = finished.outcome.reason;
    switch (finished.outcome.kind) {
        case Kind::completed:
        case Kind::stopped:
            break;
        case Kind::timed_out:
            tell_others_to_stop(attempt);
            break;
        case Kind::failed: {
            const bool lost_a_peer = std::ranges::any_of(attempt.nodes, [](const NodeEntry& n) {
                return is_active(n.second) && !n.second.killed.empty();
            });
            if (!is_elastic() && lost_a_peer && attempt.interrupted.empty())
                return interrupt(attempt, host, "another instance is lost", kFarewell);
            if (attempt.interrupted.empty()) fail(attempt, name);
            break;
        }
        case Kind::agent_error:
            if (is_elastic()) return drop_node(attempt, entry, reason, announced, event.time);
            if (attempt.interrupted.empty() && !retry(attempt, reason)) fail(attempt, name);
            break;
        case Kind::interrupted:
            if (is_elastic())
                return drop_node(attempt, entry, reason.empty() ? "interrupted" : reason, true,
                                 event.time);
            if (attempt.interrupted.empty())
                return interrupt(attempt, host, reason.empty() ? "its machine goes away" : reason,
                                 kFarewell);
            break;
    }
    settle(attempt, event.time);
    if (!is_terminal(job_.status) && !attempt.ended) show(attempt, {}, event.time);
}

void Stepper::apply(Attempt& attempt, NodeEntry& entry, const plan::Event& event,
                    const plan::Collected& collected) {
    entry.second.collected = collected;
    entry.second.phase = plan::Phase::uploading;
    show(attempt, {}, event.time);
    settle_results(attempt);
}

void Stepper::apply(Attempt&, NodeEntry&, const plan::Event&,
                    const plan::CheckpointCommitted& committed) {
    if (!job_.checkpoint || job_.checkpoint->id < committed.id) job_.checkpoint = committed;
}

void Stepper::apply(Attempt&, NodeEntry&, const plan::Event&, const plan::CheckpointRestored&) {}

// Only the ledger has a use for it.
void Stepper::apply(Attempt&, NodeEntry&, const plan::Event&, const plan::GenerationChanged&) {}

void Stepper::apply(Attempt&, NodeEntry&, const plan::Event&, const plan::Progress& progress) {
    job_.progress = progress;
}

/// The node's outcome is the job's, unless another was first.
void Stepper::fail(Attempt& attempt, const std::string& node) {
    if (attempt.first_failed.empty()) attempt.first_failed = node;
    tell_others_to_stop(attempt);
}

void Stepper::operator()(const AgentGone& gone) {
    Attempt* attempt = current(gone.attempt);
    if (attempt == nullptr) return;
    if (gone.host == engine::kNetworkHost) return lose_network(*attempt, gone.ending);
    const auto found = attempt->nodes.find(gone.host);
    if (found == attempt->nodes.end() || found->second.finished) return;
    lose_node(*attempt, *found, gone.ending);
}

void Stepper::lose_node(Attempt& attempt, NodeEntry& entry, const std::string& how) {
    auto& [name, node] = entry;
    const std::string host = node.host;
    const std::string why =
        !node.killed.empty() ? node.killed : "the agent ended unexpectedly" + in_brackets(how);
    const bool asked_for = is_leaving(node);
    plan::Outcome outcome;
    outcome.kind = plan::Outcome::Kind::agent_error;
    outcome.reason = fmt::format(
        "InternalServerError: the agent on {} ended unexpectedly{}; nothing of its output was "
        "kept. Create the job again; if it happens again, look for memory shortage in the "
        "system's log",
        name, in_brackets(how));
    node.finished = outcome;
    changed_ = true;
    if (is_dismissed(node)) {
        node.finished->kind =
            is_stopping() ? plan::Outcome::Kind::stopped : plan::Outcome::Kind::completed;
        node.finished->reason.clear();
        return settle(attempt, now_);
    }
    if (is_elastic()) return drop_node(attempt, entry, why, asked_for, now_);
    if (!attempt.interrupted.empty()) return settle(attempt, now_);
    const bool replaceable = job_.spec.spot || !node.killed.empty();
    if (replaceable) {
        if (is_stopping() || asked_for || attempt.training || bear_fruitless(attempt))
            return interrupt(attempt, host, why, kFarewell);
    } else if (retry(attempt, host + ": " + why)) {
        return settle(attempt, now_);
    }
    if (attempt.first_failed.empty()) attempt.first_failed = name;
    end(ending_of(attempt), now_);  // at once: the other nodes are released with it
}

void Stepper::lose_network(Attempt& attempt, const std::string& how) {
    if (!attempt.interrupted.empty() || is_stopping()) return;
    const std::string why = "the network of the instances ended unexpectedly" + in_brackets(how);
    if (job_.spec.spot || is_elastic()) {
        if (attempt.training || bear_fruitless(attempt))
            return interrupt(attempt, engine::kNetworkHost, why, kFarewell);
    } else if (retry(attempt, why)) {
        return settle(attempt, now_);
    }
    end({Status::failed, Secondary::failed, "Training job failed",
         fmt::format("InternalServerError: {}. Create the job again; if it happens again, look for "
                     "memory shortage in the system's log",
                     why)},
        now_);
}

/// Everybody's results are in storage as parts: one joins them, then the others may go. They wait
/// for it, so that another can do it when that one is lost.
void Stepper::settle_results(Attempt& attempt) {
    NodeEntry* joins = nullptr;  // the lowest that can, or the one that was asked
    bool joined = false;
    std::vector<std::string> parts;
    for (auto& entry : attempt.nodes) {
        auto& [name, node] = entry;
        if (has_results(node)) parts.push_back(name);
        if (!is_active(node)) {
            // Of an attempt that is given up, half of the results is none.
            if (!attempt.interrupted.empty() && !node.collected) return;
            joined |= has_finish(node) && node.finished &&
                      node.finished->kind != plan::Outcome::Kind::agent_error &&
                      node.finished->kind != plan::Outcome::Kind::interrupted;
            continue;
        }
        if (!node.collected) return;   // not everybody is so far
        if (has_finish(node)) return;  // it is at work
        if (joins == nullptr || host_number(node.host) < host_number(joins->second.host))
            joins = &entry;
    }
    if (joins == nullptr) return;
    if (joined || parts.empty()) {
        for (auto& [name, node] : attempt.nodes)
            if (is_active(node)) node.commands.emplace_back(plan::Finish{});
    } else {
        std::ranges::sort(parts, {}, [&](const std::string& name) {
            return std::pair(host_number(attempt.nodes.at(name).host), name);
        });
        joins->second.commands.emplace_back(plan::Finish{std::move(parts)});
    }
    noted_ = true;
    effects_.push_back(Wake{attempt.id});
}

/// The phase of the job. Of a fixed one: its slowest node's, but "downloading" as soon as anyone
/// does. Of an elastic one: training while anybody may train.
plan::Phase Stepper::phase_of(const Attempt& attempt) const {
    plan::Phase slowest = plan::Phase::uploading;
    plan::Phase fastest = plan::Phase::starting;
    bool any = false;
    for (const auto& [name, node] : attempt.nodes) {
        if (is_elastic() && !is_active(node)) continue;
        any = true;
        const plan::Phase phase = node.phase.value_or(plan::Phase::starting);
        slowest = std::min(slowest, phase);
        fastest = std::max(fastest, phase);
    }
    if (!any) return plan::Phase::starting;
    if (is_elastic())
        return slowest == plan::Phase::uploading ? slowest
                                                 : std::min(fastest, plan::Phase::training);
    if (slowest == plan::Phase::starting && fastest > plan::Phase::starting)
        return plan::Phase::downloading;
    return slowest;
}

void Stepper::show(Attempt& attempt, const std::string& message, Instant at) {
    if (!attempt.interrupted.empty()) return;
    const plan::Phase phase = phase_of(attempt);
    // Once stopping, only the upload is still news.
    if (job_.status == Status::stopping && phase != plan::Phase::uploading) return;
    const Secondary secondary = secondary_of(phase);
    const bool crew = is_elastic() && phase == plan::Phase::training && message.empty();
    if (job_.secondary() == secondary) {
        if (!message.empty()) say(message);
        if (crew) say(crew_message(attempt));
        return;
    }
    // The way back is by Interrupted only.
    const bool forward = job_.secondary() > Secondary::uploading || job_.secondary() < secondary;
    if (secondary == Secondary::starting || !forward) return;
    std::string said = message.empty() ? std::string(default_message(phase)) : message;
    enter(secondary, crew ? crew_message(attempt) : std::move(said), at);
    const Instant start = job_.transitions.back().start;
    if (!job_.training_start) job_.training_start = start;
    if (!attempt.downloading) attempt.downloading = start;
    if (!attempt.training && phase >= plan::Phase::training) attempt.training = start;
}

}  // namespace ty::jobs
