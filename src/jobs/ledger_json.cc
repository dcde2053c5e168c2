// SPDX-License-Identifier: Apache-2.0
// The stored form of a ledger, part of a job's state. Only this program reads it; what does not fit
// is corruption. Members that say nothing are left out: a job has a hundred nodes.
#include "base/error.h"
#include "base/json.h"
#include "jobs/ledger.h"

#include <nlohmann/json.hpp>

namespace ty::jobs {

namespace {

struct SumName {
    const char* name;
    milliseconds Ledger::*member;
};
constexpr SumName kSums[] = {
    {"useful", &Ledger::useful},         {"lost", &Ledger::lost},
    {"restart", &Ledger::restart},       {"idle", &Ledger::idle},
    {"checkpoint", &Ledger::checkpoint}, {"waiting", &Ledger::waiting},
    {"unsettled", &Ledger::unsettled},
};

Json sums_out(const Ledger& sums) {
    Json j = Json::object();
    for (const SumName& sum : kSums)
        if ((sums.*sum.member).count() != 0) j[sum.name] = (sums.*sum.member).count();
    if (sums.interruptions != 0) j["interruptions"] = sums.interruptions;
    if (sums.restarts != 0) j["restarts"] = sums.restarts;
    return j;
}

Ledger sums_in(const Json& j) {
    Ledger sums;
    for (const SumName& sum : kSums)
        sums.*sum.member = milliseconds(j.value(sum.name, std::int64_t{0}));
    sums.interruptions = j.value("interruptions", 0);
    sums.restarts = j.value("restarts", 0);
    return sums;
}

Json node_out(const LedgerNode& node) {
    Json j = Json::object();
    j["doing"] = static_cast<int>(node.doing);
    j["since"] = to_epoch_millis(node.since);
    j["marked"] = to_epoch_millis(node.marked);
    j["seen"] = node.seen;
    if (node.commands != 0) j["commands"] = node.commands;
    if (node.interrupted) j["interrupted"] = true;
    if (node.generation != 0) j["generation"] = node.generation;
    if (node.running) j["running"] = true;
    if (node.unsettled.empty()) return j;
    Json stretches = Json::array();  // [from, to, generation, ended badly]
    for (const Stretch& s : node.unsettled)
        stretches.push_back(Json::array(
            {to_epoch_millis(s.from), to_epoch_millis(s.to), s.generation, s.ended_badly ? 1 : 0}));
    j["unsettled"] = std::move(stretches);
    return j;
}

LedgerNode node_in(const Json& j) {
    LedgerNode node;
    const int doing = j.at("doing").get<int>();
    if (doing < 0 || doing > static_cast<int>(LedgerNode::Doing::checkpointing))
        throw_error(Code::corrupt, "", "unknown class {} in a stored ledger", doing);
    node.doing = static_cast<LedgerNode::Doing>(doing);
    node.since = from_epoch_millis(j.at("since").get<long long>());
    node.marked = from_epoch_millis(j.at("marked").get<long long>());
    node.seen = j.at("seen").get<std::uint64_t>();
    node.commands = j.value("commands", std::size_t{0});
    node.interrupted = j.value("interrupted", false);
    node.generation = j.value("generation", std::int64_t{0});
    node.running = j.value("running", false);
    if (const auto stretches = j.find("unsettled"); stretches != j.end())
        for (const Json& s : *stretches)
            node.unsettled.push_back({.from = from_epoch_millis(s.at(0).get<long long>()),
                                      .to = from_epoch_millis(s.at(1).get<long long>()),
                                      .generation = s.at(2).get<std::int64_t>(),
                                      .ended_badly = s.at(3).get<int>() != 0});
    return node;
}

}  // namespace

std::string to_json(const LedgerState& state) {
    Json j = Json::object();
    j["sums"] = sums_out(state.sums);
    for (const auto& [name, node] : state.nodes) j["nodes"][name] = node_out(node);
    if (state.waiting) j["waiting"] = to_epoch_millis(*state.waiting);
    j["last_end"] = to_epoch_millis(state.last_end);
    j["attempts"] = state.attempts;
    if (state.interrupted) j["interrupted"] = true;
    if (state.closed) j["closed"] = true;
    return dump_json(j);
}

LedgerState ledger_from_json(std::string_view text) {
    try {
        const Json j = parse_json(text);
        LedgerState state;
        state.sums = sums_in(j.at("sums"));
        if (const auto nodes = j.find("nodes"); nodes != j.end())
            for (const auto& [name, node] : nodes->items()) state.nodes[name] = node_in(node);
        if (const auto since = j.find("waiting"); since != j.end())
            state.waiting = from_epoch_millis(since->get<long long>());
        state.last_end = from_epoch_millis(j.at("last_end").get<long long>());
        state.attempts = j.at("attempts").get<int>();
        state.interrupted = j.value("interrupted", false);
        state.closed = j.value("closed", false);
        return state;
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::corrupt, "", "a stored ledger cannot be read: {}", error.what());
    }
}

}  // namespace ty::jobs
