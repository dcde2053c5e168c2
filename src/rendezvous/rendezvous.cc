// SPDX-License-Identifier: Apache-2.0
// Nodes and their messages: who is connected, who is heard, who still runs something. What follows
// from a change is decided in evaluate(), by forming.cc, ending.cc and resizing.cc.
#include "rendezvous/rendezvous.h"

#include "base/error.h"
#include "rendezvous/state.h"

#include <algorithm>

namespace ty::rendezvous {

using State = Rendezvous::State;

// ---- the lists and counters
// ----------------------------------------------------------------------

Effects State::conclude() {
    if (out.record && !snapshots_sent) send_snapshots();
    snapshots_sent = false;
    return std::exchange(out, Effects());
}

void State::send_snapshots() {
    snapshots_sent = true;
    if (assigned.empty()) return;
    std::string text;
    for (const Assignment::Successor& successor : assigned.front().second.successors) {
        const Node* node = find(successor.id);
        if (node == nullptr || !node->connected) continue;
        if (text.empty()) text = snapshot();
        send(*node, down::Snapshot{text});
    }
}

/// Time never goes back: messages may be stamped a little out of order.
void State::clock(Monotonic at) {
    now = std::max(now, at);
    if (phase == Phase::gathering && !gathering_since) gathering_since = now;
}

Node* State::find(const std::string& id) {
    const auto found = nodes.find(id);
    return found == nodes.end() ? nullptr : &found->second;
}

void State::count(const Node& node, int sign) {
    const bool heard = node.connected && !node.silent;
    const bool alive = !node.dead && !node.silent && (node.connected || node.watch == Watch::lease);
    const bool staying = !node.leaving && !node.dismissed;
    const bool ready = heard && node.running == 0 && staying;
    const auto add = [sign](int& counter, bool counts) { counter += counts ? sign : 0; };
    add(tally.connected, node.connected);
    add(tally.ready, ready);
    add(tally.survivors, ready && node.member);
    add(tally.newcomers, ready && !node.member);
    add(tally.busy, alive && node.running != 0);
    add(tally.usable, alive && staying);
    add(tally.awaited, node.member && alive && !node.connected);
    add(tally.present, node.member && heard && !node.doubted);
    add(tally.quorum, node.member && !node.dead);
    add(tally.unfinished, node.member && !node.succeeded);
}

/// Inside change() only.
void State::watch(Node& node, Watch where) {
    if (node.watch == Watch::lease) leases.erase(node.place);
    if (node.watch == Watch::fencing) fences.erase(node.place);
    node.watch = where;
    if (where == Watch::lease) node.place = leases.insert(leases.end(), &node);
    if (where == Watch::fencing) node.place = fences.insert(fences.end(), &node);
}

/// True when more than the time has changed. What arrives after a silence may be an old message in
/// front of an old goodbye, so doubt ends only when the node still talks a lease later.
bool State::hear(Node& node) {
    node.last_heard = now;
    const bool trusted = node.doubted && !node.silent && now >= node.doubted_until;
    if (trusted) change(node, [&] { node.doubted = false; });
    if (node.watch == Watch::lease && !node.silent) {
        leases.splice(leases.end(), leases, node.place);
        return trusted;
    }
    const bool was_silent = node.silent;
    if (was_silent) node.doubted_until = now + policy.lease;
    change(node, [&] {
        node.silent = false;
        watch(node, Watch::lease);
    });
    if (was_silent) note("heard_again", {{"node", node.id}, {"host", node.facts.host}});
    return true;
}

void State::erase(const std::string& id) {
    const auto found = nodes.find(id);
    if (found == nodes.end()) return;
    count(found->second, -1);
    watch(found->second, Watch::none);
    nodes.erase(found);
}

void State::send(const Node& node, Down message) {
    if (node.connected) out.messages.push_back({node.id, std::move(message)});
}

void State::note(std::string what, std::vector<std::pair<std::string, std::string>> fields) {
    out.notes.push_back({std::move(what), std::move(fields)});
}

/// Its disappearance would hurt the newest generation.
bool State::is_working(const Node& node) const {
    return node.member && !node.succeeded && node.running == generation;
}

void State::evaluate() {
    const bool clean = is_active() || (phase == Phase::stopping && ending.failures.empty());
    if (clean && !assigned.empty() && tally.unfinished == 0)
        return end(Verdict::succeeded, Cause::application, "every worker has succeeded", nullptr);
    if (phase == Phase::running) consider_growth();
    if (phase == Phase::draining && tally.busy == 0) stop(drain->cause, drain->why, std::nullopt);
    if (phase == Phase::stopping && tally.busy == 0) settle();
    if (phase == Phase::gathering) try_start();
}

// ---- Hello
// ---------------------------------------------------------------------------------------

namespace {

/// Empty when a node's idea of the job is the coordinator's.
std::string disagreement(const Policy& theirs, const Policy& ours) {
    if (theirs.run_id != ours.run_id)
        return fmt::format("this node belongs to run \"{}\", the job here is \"{}\"",
                           theirs.run_id.substr(0, 128), ours.run_id);
    if (theirs.min_nodes != ours.min_nodes || theirs.max_nodes != ours.max_nodes)
        return fmt::format("this node was started for {}:{} nodes, the job here is for {}:{}",
                           theirs.min_nodes, theirs.max_nodes, ours.min_nodes, ours.max_nodes);
    return {};
}

}  // namespace

void State::on_hello(const std::string& id, const up::Hello& hello) {
    Node* known = find(id);
    std::string refusal = hello.policy ? disagreement(*hello.policy, policy) : std::string();
    if (refusal.empty() && phase == Phase::over && (known == nullptr || !known->member)) {
        down::Finish verdict = finish;
        verdict.why = "the job has ended: " + finish.why;
        note("too_late", {{"node", id}, {"host", hello.facts.host}});
        out.messages.push_back({id, std::move(verdict)});
        return;
    }
    if (!refusal.empty()) {
        note("refused", {{"node", id}, {"host", hello.facts.host}, {"why", refusal}});
        out.messages.push_back({id, down::Refused{std::move(refusal)}});
        return;
    }
    Node& node = known != nullptr ? *known : nodes[id];
    if (known == nullptr) {
        node.id = id;
        node.arrival = ++arrivals;
        node.joined = now;
        note("joined", {{"node", id},
                        {"host", hello.facts.host},
                        {"workers", fmt::format("{}", hello.facts.workers)}});
        count(node, +1);
    }
    const bool strayed = has_strayed(node, hello);
    change(node, [&] {
        node.facts = hello.facts;
        node.facts.id = id;
        node.connected = true;
        node.dead = node.doubted = node.restored = false;
        node.dismissed = false;  // it may have missed its Finish
        node.warm = hello.warm;
        node.master_port = hello.master_port;
        node.newest = std::max(hello.newest, hello.running);
    });
    hear(node);
    send(node, down::Welcome{policy.lease, policy.fence});
    if (phase == Phase::over) {
        // Its connection broke while the end was on its way.
        send(node, finish);
        return;
    }
    const bool was_newcomer = known != nullptr && !node.member && node.running == 0;
    if (const auto newest = std::max(hello.running, hello.newest); newest > generation)
        adopt_generation(newest, hello.newest_nodes);
    else if (strayed)
        hold(policy.lease + policy.fence + policy.fence_margin);
    claim(node, hello.running);
    if (node.leaving) dismiss_leaving();
    if (!was_newcomer) note_newcomer(node);
}

/// What a node says it runs, against what it should.
void State::claim(Node& node, std::int64_t running) {
    const bool active = is_active() && node.member;
    if (active && running == generation) {
        change(node, [&] { node.running = running; });
        if (phase == Phase::draining) call_checkpoint(node);
        return;
    }
    // Succeeded or Failed may follow at once; without either it lost its workers or its Start.
    if (active && running == 0 && is_working(node) && !limbo_until)
        limbo_until = now + policy.lease;
    change(node, [&] { node.running = running; });
    if (running == 0) return;
    const bool ours = phase == Phase::stopping && running == generation;
    send(node, down::Abort{running, ours ? ending.cause : Cause::infrastructure,
                           ours ? ending.why : fmt::format("generation {} has ended", running),
                           ours && ending.graceful});
}

/// It comes with a vote that another coordinator may just have counted: for a generation this node
/// was never told of. That one ends when it misses the node (a lease) or cannot reach its own
/// members (a fence), so nothing may start here before.
bool State::has_strayed(const Node& node, const up::Hello& hello) const {
    const bool others = !assigned.empty() && !assigned.front().second.successors.empty();
    const bool votes = node.member || (unrecorded_nodes > 0 && hello.newest == generation);
    const bool away = node.restored || now > node.last_heard + policy.fence;
    return (others || unrecorded_nodes > 0) && votes && away && hello.running == 0;
}

void State::hold(milliseconds duration) {
    hold_until = std::max(hold_until.value_or(now), now + duration);
}

/// The record is older than the job: nodes were started by another coordinator. Others of that
/// generation may not have found us yet, so nothing starts before their fences have fallen.
void State::adopt_generation(std::int64_t claimed, int of_nodes) {
    note("newer_generation",
         {{"known", fmt::format("{}", generation)}, {"claimed", fmt::format("{}", claimed)}});
    hold(policy.lease + policy.fence + policy.fence_margin);
    if (is_active())
        stop(Cause::infrastructure, "the coordinator's record is older than the job", std::nullopt);
    generation = claimed;
    unrecorded_nodes = of_nodes;
    out.record = true;
}

// ---- the other messages
// --------------------------------------------------------------------------

void State::on(Node& node, const up::Stopped& message) {
    if (message.generation < node.running) return;  // late, of a generation before
    const bool lost = is_active() && is_working(node) && message.generation == generation;
    const bool was_running = node.running != 0;
    change(node, [&] {
        node.running = 0;
        node.master_port = message.master_port;
    });
    if (lost && phase == Phase::running)
        lost_member(node, FailureKind::node_silent, "it stopped its workers by itself");
    if (node.leaving && phase == Phase::gathering) dismiss_leaving();
    if (was_running) note_newcomer(node);
}

void State::on(Node& node, const up::Failed& message) {
    const bool current = node.member && message.generation == generation;
    if (!current || !(is_active() || phase == Phase::stopping)) {
        note("late_failure", {{"node", node.id}, {"why", sentence(message.failure)}});
        return;
    }
    Reported reported{message.cause, message.failure, true};
    if (reported.failure.host.empty()) reported.failure.host = node.facts.host;
    std::string why = sentence(reported.failure);  // before `reported` is moved from
    stop(message.cause, std::move(why), std::move(reported));
}

void State::on(Node& node, const up::Succeeded& message) {
    if (!node.member || message.generation != generation) return;
    change(node, [&] { node.succeeded = true; });
}

void State::on(Node& node, const up::Leaving& message) {
    const Monotonic by = now + message.deadline;
    if (!node.leaving)
        note("leaving", {{"node", node.id},
                         {"host", node.facts.host},
                         {"deadline_ms", fmt::format("{}", message.deadline.count())},
                         {"why", message.why}});
    change(node, [&] { node.leaving = true; });
    if (is_active() && is_working(node)) {
        std::string why = fmt::format("node {} leaves", node.facts.host);
        if (!message.why.empty()) why += ": " + message.why;
        // A node that was told to stop, with no time to ask anybody: no preemption that would bring
        // a replacement, so a job without restarts ends with it.
        if (message.deadline <= milliseconds(0))
            return stop(Cause::infrastructure, std::move(why), std::nullopt);
        return start_drain(Cause::preemption, std::move(why), by);
    }
    if (phase != Phase::stopping) dismiss_leaving();
}

void State::on(Node& node, const up::Checkpointed& message) {
    if (phase != Phase::draining || message.generation != generation) return;
    note("checkpointed", {{"node", node.id}, {"what", message.what}});
    stop(drain->cause, drain->why, std::nullopt);
}

void State::on(Node& node, const up::Warm& /*message*/) {
    node.warm = true;
}

void State::on(Node& node, const up::Bye& /*message*/) {
    note("left", {{"node", node.id}, {"host", node.facts.host}});
    gone(node, true, "it left by itself");
}

/// Its workers are gone; unless it is dead it may live on with another coordinator.
void State::gone(Node& node, bool dead, const std::string& how) {
    const bool working = is_working(node);
    change(node, [&] {
        node.connected = false;
        node.running = 0;
        node.silent = !dead;
        node.dead = dead;
        watch(node, Watch::none);
    });
    if (working && (is_active() || phase == Phase::stopping))
        lost_member(node, FailureKind::node_lost, how);
    if (!node.member) erase(std::string(node.id));
}

// ---- the public face
// -----------------------------------------------------------------------------

Rendezvous::Rendezvous(Policy policy) : Rendezvous(new State(std::move(policy))) {}
Rendezvous::Rendezvous(State* state) : state_(state) {}
void Rendezvous::StateDeleter::operator()(State* state) const {
    delete state;
}

Effects Rendezvous::receive(const std::string& node, const up::Hello& hello, Monotonic now) {
    state_->clock(now);
    state_->on_hello(node, hello);
    state_->evaluate();
    return state_->conclude();
}

Effects Rendezvous::receive(const std::string& id, const Up& message, Monotonic now) {
    if (const auto* hello = std::get_if<up::Hello>(&message)) return receive(id, *hello, now);
    state_->clock(now);
    Node* node = state_->find(id);
    if (node == nullptr || !node->connected) {
        state_->note("ignored", {{"node", id}, {"why", "it has not said hello"}});
        return state_->conclude();
    }
    if (state_->phase == Phase::over) {
        if (std::holds_alternative<up::Bye>(message)) state_->gone(*node, true, {});
        return state_->conclude();
    }
    const bool changed = state_->hear(*node);
    if (const auto* beat = std::get_if<up::Beat>(&message)) {
        state_->send(*node, down::BeatAnswer{beat->sequence});
        if (!changed) return state_->conclude();  // nothing can follow from it
    } else if (const auto* stopped = std::get_if<up::Stopped>(&message)) {
        state_->on(*node, *stopped);
    } else if (const auto* failed = std::get_if<up::Failed>(&message)) {
        state_->on(*node, *failed);
    } else if (const auto* succeeded = std::get_if<up::Succeeded>(&message)) {
        state_->on(*node, *succeeded);
    } else if (const auto* leaving = std::get_if<up::Leaving>(&message)) {
        state_->on(*node, *leaving);
    } else if (const auto* checkpointed = std::get_if<up::Checkpointed>(&message)) {
        state_->on(*node, *checkpointed);
    } else if (const auto* warm = std::get_if<up::Warm>(&message)) {
        state_->on(*node, *warm);
    } else if (const auto* bye = std::get_if<up::Bye>(&message)) {
        state_->on(*node, *bye);
    }
    state_->evaluate();
    return state_->conclude();
}

Effects Rendezvous::lose(const std::string& id, Monotonic now, Lost how) {
    state_->clock(now);
    Node* node = state_->find(id);
    if (node == nullptr || !node->connected) return {};
    state_->note("disconnected", {{"node", id}, {"host", node->facts.host}});
    // Who had been silent may have joined another coordinator before this connection ended, and
    // what was heard after the silence may have been sent before it. That node keeps its vote.
    if (how == Lost::closed)
        state_->gone(*node, !node->doubted, {});
    else
        state_->change(*node, [node] { node->connected = false; });
    state_->evaluate();
    return state_->conclude();
}

Effects Rendezvous::tick(Monotonic now) {
    state_->clock(now);
    if (state_->phase == Phase::over) {
        state_->lingered = state_->lingered || state_->now >= *state_->over_since + seconds(3);
        return state_->conclude();
    }
    state_->silence();
    state_->expire_limbo();
    if (state_->phase == Phase::draining && state_->now >= state_->drain->by)
        state_->stop(state_->drain->cause, state_->drain->why + " (no checkpoint came in time)",
                     std::nullopt);
    state_->evaluate();
    return state_->conclude();
}

Deadline Rendezvous::next_deadline() const {
    const State& s = *state_;
    std::optional<Monotonic> next;
    const auto consider = [&next](std::optional<Monotonic> at) {
        if (at && (!next || *at < *next)) next = at;
    };
    if (s.phase == Phase::over)
        return is_done() || s.lingered ? Deadline::never()
                                       : Deadline::at(*s.over_since + seconds(3));
    if (!s.leases.empty()) consider(s.leases.front()->last_heard + s.policy.lease);
    if (!s.fences.empty())
        consider(s.fences.front()->last_heard + s.policy.fence + s.policy.fence_margin);
    consider(s.limbo_until);
    switch (s.phase) {
        case Phase::gathering:
            if (s.hold_until && *s.hold_until > s.now) consider(s.hold_until);
            if (s.has_enough() && s.is_clear() && s.has_quorum())
                consider(*s.min_reached + s.last_call());
            else if (s.gathering_since && !s.policy.standing)
                consider(*s.gathering_since + s.policy.join_timeout);
            break;
        case Phase::running:
            consider(s.growth_at);
            break;
        case Phase::draining:
            consider(s.drain->by);
            break;
        case Phase::stopping:
            if (!s.policy.standing) consider(*s.stopping_since + s.policy.join_timeout);
            break;
        case Phase::over:
            break;
    }
    return next ? Deadline::at(*next) : Deadline::never();
}

std::string Rendezvous::snapshot() const {
    return state_->snapshot();
}

Phase Rendezvous::phase() const {
    return state_->phase;
}

std::int64_t Rendezvous::generation() const {
    return state_->generation;
}

bool Rendezvous::is_done() const {
    // Members that a restored coordinator has not heard yet must learn the verdict, too.
    const bool all_told = state_->tally.connected == 0 && state_->tally.awaited == 0;
    if (state_->policy.standing) return false;
    return state_->phase == Phase::over && (state_->lingered || all_told);
}

std::optional<NodeFacts> Rendezvous::facts(const std::string& node) const {
    const Node* known = state_->find(node);
    return known != nullptr ? std::optional(known->facts) : std::nullopt;
}

Rendezvous::View Rendezvous::view() const {
    return {state_->phase, state_->generation, static_cast<std::size_t>(state_->tally.connected),
            state_->assigned, state_->spent};
}

}  // namespace ty::rendezvous
