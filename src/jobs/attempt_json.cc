// SPDX-License-Identifier: Apache-2.0
#include "jobs/attempt_json.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace ty::jobs {

namespace {

Json outcome_out(const plan::Outcome& outcome) {
    Json o = Json::object();
    o["kind"] = static_cast<int>(outcome.kind);
    o["reason"] = outcome.reason;
    if (outcome.exit_code) o["exit_code"] = *outcome.exit_code;
    return o;
}

plan::Outcome outcome_in(const Json& o) {
    plan::Outcome outcome;
    outcome.kind = static_cast<plan::Outcome::Kind>(o.at("kind").get<int>());
    outcome.reason = o.at("reason").get<std::string>();
    if (o.contains("exit_code")) outcome.exit_code = o.at("exit_code").get<int>();
    return outcome;
}

void put(Json& j, const char* name, const std::optional<Instant>& instant) {
    if (instant) j[name] = to_epoch_millis(*instant);
}

std::optional<Instant> instant(const Json& j, const char* name) {
    if (!j.contains(name)) return std::nullopt;
    return from_epoch_millis(j.at(name).get<long long>());
}

Json node_out(const Node& node) {
    Json j = Json::object();
    j["host"] = node.host;
    j["wanted"] = to_epoch_millis(node.wanted);
    j["epoch"] = node.epoch;
    if (node.seen != 0) j["seen"] = node.seen;
    if (node.phase) j["phase"] = static_cast<int>(*node.phase);
    if (node.finished) j["finished"] = outcome_out(*node.finished);
    if (node.collected)
        j["collected"] = {{"model", node.collected->model}, {"output", node.collected->output}};
    for (const plan::Command& command : node.commands)
        j["commands"].push_back(parse_json(plan::to_json(command)));
    put(j, "leave_by", node.leave_by);
    if (!node.killed.empty()) j["killed"] = node.killed;
    if (node.launched) j["launched"] = true;
    if (node.released) j["released"] = true;
    return j;
}

Node node_in(const Json& j) {
    Node node;
    node.host = j.at("host").get<std::string>();
    node.wanted = from_epoch_millis(j.at("wanted").get<long long>());
    node.epoch = j.at("epoch").get<std::int64_t>();
    node.seen = j.value("seen", std::uint64_t(0));
    if (j.contains("phase")) node.phase = static_cast<plan::Phase>(j.at("phase").get<int>());
    if (j.contains("finished")) node.finished = outcome_in(j.at("finished"));
    if (const auto collected = j.find("collected"); collected != j.end())
        node.collected = plan::Collected{collected->at("model").get<bool>(),
                                         collected->at("output").get<bool>()};
    if (const auto commands = j.find("commands"); commands != j.end())
        for (const Json& command : *commands)
            node.commands.push_back(plan::command_from_json(dump_json(command)));
    node.leave_by = instant(j, "leave_by");
    node.killed = j.value("killed", std::string());
    node.launched = j.value("launched", false);
    node.released = j.value("released", false);
    return node;
}

/// Before there were nodes an attempt had maps by host.
void nodes_of_old_row(const Json& j, const Job& job, Attempt& attempt) {
    for (const std::string& host : hosts_of(job.spec)) {
        Node& node = attempt.nodes[host];
        node.host = host;
        node.wanted = job.created;
        node.epoch = std::chrono::floor<seconds>(job.created).time_since_epoch().count();
        node.launched = attempt.launched;
        const auto member = [&](const char* name) -> const Json* {
            const auto map = j.find(name);
            if (map == j.end()) return nullptr;
            const auto found = map->find(host);
            return found == map->end() ? nullptr : &*found;
        };
        if (const Json* seen = member("seen")) node.seen = seen->get<std::uint64_t>();
        if (const Json* phase = member("phases"))
            node.phase = static_cast<plan::Phase>(phase->get<int>());
        if (const Json* finished = member("finished")) node.finished = outcome_in(*finished);
        const bool told = job.stop_requested || !attempt.first_failed.empty();
        if (told && !node.finished) node.commands.emplace_back(plan::Stop{});
    }
    attempt.downloading = job.training_start;
    for (const Transition& transition : job.transitions)
        if (transition.status == Secondary::training) attempt.training = transition.start;
    if (is_terminal(job.status)) attempt.ended = job.transitions.back().start;
}

}  // namespace

Json attempt_out(const Attempt& attempt) {
    Json j = Json::object();
    j["id"] = attempt.id.str();
    j["number"] = attempt.number;
    Json nodes = Json::object();
    for (const auto& [name, node] : attempt.nodes) nodes[name] = node_out(node);
    j["nodes"] = std::move(nodes);
    for (const auto& [host, count] : attempt.agents) j["agents"][host] = count;
    if (!attempt.interrupted.empty()) j["interrupted"] = attempt.interrupted;
    if (!attempt.first_failed.empty()) j["first_failed"] = attempt.first_failed;
    put(j, "downloading", attempt.downloading);
    put(j, "training", attempt.training);
    put(j, "ended", attempt.ended);
    put(j, "not_before", attempt.not_before);
    j["launched"] = attempt.launched;
    j["released"] = attempt.released;
    return j;
}

Attempt attempt_in(const Json& j, const Job& job) {
    Attempt attempt;
    attempt.id = AttemptId(j.at("id").get<std::string>());
    attempt.number = j.at("number").get<int>();
    attempt.first_failed = j.value("first_failed", std::string());
    attempt.interrupted = j.value("interrupted", std::string());
    attempt.launched = j.at("launched").get<bool>();
    attempt.released = j.at("released").get<bool>();
    if (!j.contains("nodes")) {
        nodes_of_old_row(j, job, attempt);
        return attempt;
    }
    for (const auto& [name, node] : j.at("nodes").items()) attempt.nodes[name] = node_in(node);
    if (const auto agents = j.find("agents"); agents != j.end())
        for (const auto& [host, count] : agents->items()) attempt.agents[host] = count.get<int>();
    attempt.downloading = instant(j, "downloading");
    attempt.training = instant(j, "training");
    attempt.ended = instant(j, "ended");
    attempt.not_before = instant(j, "not_before");
    return attempt;
}

}  // namespace ty::jobs
