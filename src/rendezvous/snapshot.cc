// SPDX-License-Identifier: Apache-2.0
// The state as text, for the coordinator's own log and for successors. Connections, leases and
// newcomers are not part of it: nodes say Hello again. A digest tells a torn file from a state.
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "rendezvous/state.h"
#include "rendezvous/wire.h"

#include <nlohmann/json.hpp>

namespace ty::rendezvous {

using State = Rendezvous::State;

namespace {

constexpr std::string_view kFormat = "trainyard-rendezvous-1";

Json node_json(const Node& node) {
    Json json = {
        {"facts", to_json(node.facts)}, {"running", node.running}, {"newest", node.newest}};
    // Flags only where they are set: a thousand nodes are usually all well.
    const auto put = [&json](const char* name, bool value) {
        if (value) json[name] = true;
    };
    put("member", node.member);
    put("dead", node.dead);
    put("leaving", node.leaving);
    put("succeeded", node.succeeded);
    return json;
}

Json ending_json(const Ending& ending) {
    Json failures = Json::array();
    for (const Reported& reported : ending.failures)
        failures.push_back({{"cause", std::string(to_string(reported.cause))},
                            {"failure", to_json(reported.failure)},
                            {"by_worker", reported.by_worker}});
    return {{"cause", std::string(to_string(ending.cause))},
            {"why", clipped(ending.why)},
            {"graceful", ending.graceful},
            {"failures", std::move(failures)}};
}

Ending read_ending(const Reader& in) {
    Ending ending{in.cause("cause"), in.text("why"), in.flag("graceful"), {}};
    for (const Json& item : in.list("failures", kMaxNodes)) {
        const Reader one(item, in.at("failures[]"));
        ending.failures.push_back(
            {one.cause("cause"), read_failure(one.object("failure")), one.flag("by_worker")});
    }
    return ending;
}

bool is_set(const Reader& in, const char* name) {
    return in.find(name) != nullptr && in.flag(name);
}

/// A node as it was; its lease begins now.
void read_node(State& state, const Reader& in) {
    NodeFacts facts = read_facts(in.object("facts"));
    Node& node = state.nodes[facts.id];
    if (!node.id.empty()) in.refuse("facts.id", "unique");
    node.id = facts.id;
    node.facts = std::move(facts);
    node.arrival = ++state.arrivals;
    node.joined = node.last_heard = state.now;
    state.count(node, +1);
    state.change(node, [&] {
        node.running = in.generation("running");
        node.member = is_set(in, "member");
        node.restored = true;
        node.dead = is_set(in, "dead");
        node.leaving = is_set(in, "leaving");
        node.succeeded = is_set(in, "succeeded");
        node.newest = in.generation("newest");
        if (!node.dead) state.watch(node, Watch::lease);
    });
}

void read_members(State& state, const Reader& in) {
    std::vector<NodeFacts> ordered;
    for (const Json& item : in.list("seats", kMaxNodes)) {
        if (!item.is_string()) in.refuse("seats", "a list of ids");
        state.seats.push_back(item.get<std::string>());
        if (state.seats.back().empty()) continue;
        const Node* node = state.find(state.seats.back());
        if (node == nullptr || !node->member) in.refuse("seats", "ids of members");
        ordered.push_back(node->facts);
    }
    if (ordered.empty()) return;
    state.assign(ordered, in.number("restart_count", 0, kMaxRank), in.text("master_address"),
                 in.port("master_port"));
}

void read_state(State& state, const Reader& in) {
    const std::string run = in.text("run_id");
    if (run != state.policy.run_id)
        in.refuse("run_id", fmt::format("\"{}\", the job's", state.policy.run_id));
    state.generation = in.generation("generation");
    state.phase = in.phase("phase");
    for (const Json& item : in.list("nodes", kMaxNodes))
        read_node(state, Reader(item, in.at("nodes[]")));
    read_members(state, in);
    state.spent = read_counts(in.object("spent"));
    state.worker_restarts = in.number("worker_restarts", 0, kMaxRank);
    state.port_retries = in.number("port_retries", 0, kMaxRank);
    state.unrecorded_nodes = in.number("unrecorded_nodes", 0, kMaxNodes);
    state.ending = read_ending(in.object("ending"));
    if (in.find("drain") != nullptr) {
        const Reader drain = in.object("drain");
        state.drain =
            Drain{drain.cause("cause"), drain.text("why"), state.now + drain.duration("left_ms")};
    }
    if (state.is_active() && state.assigned.empty()) in.refuse("seats", "filled while it runs");
    switch (state.phase) {
        case Phase::gathering:
            state.gathering_since = state.now;
            break;
        case Phase::running:
            break;
        case Phase::draining:
            if (!state.drain) in.refuse("drain", "given while draining");
            break;
        case Phase::stopping:
            state.stopping_since = state.now;
            break;
        case Phase::over:
            state.finish = read_finish(in.object("finish"));
            state.over_since = state.now;
            break;
    }
}

}  // namespace

std::string State::snapshot() const {
    Json list = Json::array();
    for (const auto& [id, node] : nodes)
        if (node.member || node.running != 0) list.push_back(node_json(node));
    Json state = {{"run_id", clipped(policy.run_id)},
                  {"generation", generation},
                  {"phase", std::string(to_string(phase))},
                  {"nodes", std::move(list)},
                  {"seats", seats}};
    if (!assigned.empty()) {
        const Assignment& first = assigned.front().second;
        state["restart_count"] = first.restart_count;
        state["master_address"] = clipped(first.master_address);
        state["master_port"] = first.master_port;
    }
    state["spent"] = to_json(spent);
    state["worker_restarts"] = worker_restarts;
    state["port_retries"] = port_retries;
    state["unrecorded_nodes"] = unrecorded_nodes;
    state["ending"] = ending_json(ending);
    if (drain) {
        const auto left = std::chrono::duration_cast<milliseconds>(drain->by - now).count();
        state["drain"] = {{"cause", std::string(to_string(drain->cause))},
                          {"why", clipped(drain->why)},
                          {"left_ms", left > 0 ? left : 0}};
    }
    if (phase == Phase::over) state["finish"] = to_json(finish);
    // Put together by hand: the state of a thousand nodes is written once, not twice.
    const std::string text = dump_json(state);
    return fmt::format(R"({{"format":"{}","digest":"{}","state":{}}})", kFormat, sha256_hex(text),
                       text);
}

Rendezvous Rendezvous::restore(std::string_view snapshot, Policy policy, Monotonic now) {
    try {
        const Json json = parse_json(snapshot);
        const Reader in(json, "snapshot");
        if (in.text("format") != kFormat) in.refuse("format", std::string(kFormat));
        const Reader state_in = in.object("state");
        if (in.text("digest") != sha256_hex(dump_json(in.need("state"))))
            in.refuse("digest", "that of the state: the text was cut or changed");
        Rendezvous restored(std::move(policy));
        restored.state_->now = now;
        read_state(*restored.state_, state_in);
        return restored;
    } catch (const Error& error) {
        throw Error(Code::corrupt, "CorruptSnapshot", error.message());
    }
}

}  // namespace ty::rendezvous
