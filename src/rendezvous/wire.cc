// SPDX-License-Identifier: Apache-2.0
// JSON of the structs that occur in messages and in snapshots. Writing puts every member, reading
// wants every member: both sides of a job run the same release.
#include "rendezvous/wire.h"

#include "base/error.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <array>

namespace ty::rendezvous {

namespace {

using enum FailureKind;
constexpr std::array kCauses = {Cause::application, Cause::infrastructure, Cause::preemption,
                                Cause::resize, Cause::hang};
constexpr std::array kKinds = {exit_code, signal,    out_of_memory, disk_full,   port_in_use,
                               hang,      node_lost, node_silent,   not_started, not_ready};
constexpr std::array kPhases = {Phase::gathering, Phase::running, Phase::draining, Phase::stopping,
                                Phase::over};
constexpr std::array kVerdicts = {Verdict::succeeded, Verdict::failed, Verdict::drained};
constexpr std::array kResizes = {ResizeWhen::checkpoint, ResizeWhen::now, ResizeWhen::never};
constexpr std::array kCountings = {Counting::by_cause, Counting::torchrun};
constexpr std::int64_t kMaxMilliseconds = std::int64_t{10} * 365 * 24 * 3600 * 1000;
constexpr std::size_t kMaxSuccessors = 3;

std::string_view word(ResizeWhen when) {
    switch (when) {
        case ResizeWhen::checkpoint:
            return "checkpoint";
        case ResizeWhen::now:
            return "now";
        case ResizeWhen::never:
            return "never";
    }
    return "unknown";
}

std::string_view word(Counting counting) {
    switch (counting) {
        case Counting::by_cause:
            return "by_cause";
        case Counting::torchrun:
            return "torchrun";
    }
    return "unknown";
}

}  // namespace

// ---- Reader
// --------------------------------------------------------------------------------------

Reader::Reader(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value_.is_object())
        throw_error(Code::invalid, "MalformedMessage", "{} must be an object", path_);
}

void Reader::refuse(const char* name, const std::string& wanted) const {
    throw_error(Code::invalid, "MalformedMessage", "{} must be {}", at(name), wanted);
}

const Json* Reader::find(const char* name) const {
    const auto found = value_.find(name);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Reader::need(const char* name) const {
    const Json* found = find(name);
    if (found == nullptr) refuse(name, "given");
    return *found;
}

const Json& Reader::list(const char* name, std::size_t most) const {
    const Json& found = need(name);
    if (!found.is_array()) refuse(name, "a list");
    if (found.size() > most) refuse(name, fmt::format("a list of at most {} items", most));
    return found;
}

std::string Reader::text(const char* name, std::size_t limit) const {
    const Json& found = need(name);
    if (!found.is_string()) refuse(name, "text");
    const auto& value = found.get_ref<const std::string&>();
    if (value.size() > limit) refuse(name, fmt::format("at most {} bytes long", limit));
    return value;
}

bool Reader::flag(const char* name) const {
    const Json& found = need(name);
    if (!found.is_boolean()) refuse(name, "true or false");
    return found.get<bool>();
}

std::int64_t Reader::whole(const char* name, std::int64_t low, std::int64_t high) const {
    const Json& found = need(name);
    if (!found.is_number_integer()) refuse(name, "a whole number");
    const bool huge =
        found.is_number_unsigned() &&
        found.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const std::int64_t value = huge ? 0 : found.get<std::int64_t>();
    if (huge || value < low || value > high)
        refuse(name, fmt::format("between {} and {}", low, high));
    return value;
}

milliseconds Reader::duration(const char* name) const {
    return milliseconds(whole(name, 0, kMaxMilliseconds));
}

Cause Reader::cause(const char* name) const {
    return choice<Cause>(name, kCauses, to_string);
}

Verdict Reader::verdict(const char* name) const {
    return choice<Verdict>(name, kVerdicts, to_string);
}

Phase Reader::phase(const char* name) const {
    return choice<Phase>(name, kPhases, to_string);
}

std::string clipped(const std::string& text) {
    std::string valid = to_valid_utf8(text);
    if (valid.size() <= kMaxText) return valid;
    std::size_t end = kMaxText;
    while (end > 0 && (static_cast<unsigned char>(valid[end]) & 0xC0U) == 0x80U) --end;
    valid.resize(end);
    return valid;
}

// ---- structs
// -------------------------------------------------------------------------------------

Json to_json(const NodeFacts& facts) {
    Json json = {{"id", clipped(facts.id)},           {"host", clipped(facts.host)},
                 {"address", clipped(facts.address)}, {"role", clipped(facts.role)},
                 {"workers", facts.workers},          {"successor_port", facts.successor_port}};
    if (facts.slot) json["slot"] = *facts.slot;
    return json;
}

NodeFacts read_facts(const Reader& in) {
    NodeFacts facts;
    facts.id = in.text("id");
    if (facts.id.empty()) in.refuse("id", "not empty");
    facts.host = in.text("host");
    facts.address = in.text("address");
    facts.role = in.text("role");
    facts.workers = in.number("workers", 1, kMaxWorkers);
    facts.successor_port = in.port("successor_port");
    if (in.find("slot") != nullptr) facts.slot = in.whole("slot", 0, kMaxRank);
    return facts;
}

Json to_json(const Failure& failure) {
    return {{"kind", std::string(to_string(failure.kind))},
            {"rank", failure.rank},
            {"local_rank", failure.local_rank},
            {"host", clipped(failure.host)},
            {"pid", failure.pid},
            {"exit_code", failure.exit_code},
            {"signal", failure.signal},
            {"message", clipped(failure.message)},
            {"secondary", failure.secondary}};
}

Failure read_failure(const Reader& in) {
    Failure failure;
    failure.kind = in.choice<FailureKind>("kind", kKinds, to_string);
    failure.rank = in.number("rank", -1, kMaxRank);
    failure.local_rank = in.number("local_rank", -1, kMaxWorkers);
    failure.host = in.text("host");
    failure.pid = static_cast<long>(in.whole("pid", 0, kMaxRank));
    failure.exit_code = in.number("exit_code", -kMaxRank, kMaxRank);
    failure.signal = in.number("signal", 0, 255);
    failure.message = in.text("message");
    failure.secondary = in.flag("secondary");
    return failure;
}

Json to_json(const std::map<Cause, int>& counts) {
    Json json = Json::object();
    for (const auto& [cause, count] : counts) json[std::string(to_string(cause))] = count;
    return json;
}

std::map<Cause, int> read_counts(const Reader& in) {
    std::map<Cause, int> counts;
    for (const Cause cause : kCauses) {
        const std::string name(to_string(cause));
        if (in.find(name.c_str()) != nullptr) counts[cause] = in.number(name.c_str(), 0, kMaxRank);
    }
    return counts;
}

Json to_json(const Policy& policy) {
    return {{"run_id", clipped(policy.run_id)},
            {"min_nodes", policy.min_nodes},
            {"max_nodes", policy.max_nodes},
            {"expected_nodes", policy.expected_nodes},
            {"last_call_ms", policy.last_call.count()},
            {"join_timeout_ms", policy.join_timeout.count()},
            {"lease_ms", policy.lease.count()},
            {"fence_ms", policy.fence.count()},
            {"fence_margin_ms", policy.fence_margin.count()},
            {"resize", std::string(word(policy.resize))},
            {"resize_debounce_ms", policy.resize_debounce.count()},
            {"warm_timeout_ms", policy.warm_timeout.count()},
            {"resize_deadline_ms", policy.resize_deadline.count()},
            {"counting", std::string(word(policy.counting))},
            {"max_restarts", policy.max_restarts},
            {"budgets", to_json(policy.budgets)},
            {"needs_majority", policy.needs_majority},
            {"standing", policy.standing}};
}

Policy read_policy(const Reader& in) {
    Policy policy;
    policy.run_id = in.text("run_id");
    policy.min_nodes = in.number("min_nodes", 1, kMaxNodes);
    policy.max_nodes = in.number("max_nodes", policy.min_nodes, kMaxNodes);
    policy.expected_nodes = in.number("expected_nodes", 0, kMaxNodes);
    policy.last_call = in.duration("last_call_ms");
    policy.join_timeout = in.duration("join_timeout_ms");
    policy.lease = in.duration("lease_ms");
    policy.fence = in.duration("fence_ms");
    policy.fence_margin = in.duration("fence_margin_ms");
    policy.resize = in.choice<ResizeWhen>("resize", kResizes, word);
    policy.resize_debounce = in.duration("resize_debounce_ms");
    policy.warm_timeout = in.duration("warm_timeout_ms");
    policy.resize_deadline = in.duration("resize_deadline_ms");
    policy.counting = in.choice<Counting>("counting", kCountings, word);
    policy.max_restarts = in.number("max_restarts", 0, kMaxRank);
    policy.budgets = read_counts(in.object("budgets"));
    policy.needs_majority = in.flag("needs_majority");
    policy.standing = in.find("standing") != nullptr && in.flag("standing");
    return policy;
}

Json to_json(const Assignment& assignment) {
    Json successors = Json::array();
    for (const Assignment::Successor& successor : assignment.successors)
        successors.push_back({{"id", clipped(successor.id)},
                              {"address", clipped(successor.address)},
                              {"port", successor.port}});
    return {{"generation", assignment.generation},
            {"restart_count", assignment.restart_count},
            {"group_rank", assignment.group_rank},
            {"group_world_size", assignment.group_world_size},
            {"first_rank", assignment.first_rank},
            {"world_size", assignment.world_size},
            {"first_role_rank", assignment.first_role_rank},
            {"role_world_size", assignment.role_world_size},
            {"master_address", clipped(assignment.master_address)},
            {"master_port", assignment.master_port},
            {"successors", std::move(successors)}};
}

Assignment read_assignment(const Reader& in) {
    Assignment assignment;
    assignment.generation = in.whole("generation", 1, kMaxGeneration);
    assignment.restart_count = in.number("restart_count", 0, kMaxRank);
    assignment.group_world_size = in.number("group_world_size", 1, kMaxNodes);
    assignment.group_rank = in.number("group_rank", 0, assignment.group_world_size - 1);
    assignment.world_size = in.number("world_size", 1, kMaxRank);
    assignment.first_rank = in.number("first_rank", 0, assignment.world_size - 1);
    assignment.role_world_size = in.number("role_world_size", 1, assignment.world_size);
    assignment.first_role_rank = in.number("first_role_rank", 0, assignment.role_world_size - 1);
    assignment.master_address = in.text("master_address");
    assignment.master_port = in.port("master_port");
    for (const Json& item : in.list("successors", kMaxSuccessors)) {
        const Reader one(item, in.at("successors[]"));
        assignment.successors.push_back({one.text("id"), one.text("address"), one.port("port")});
    }
    return assignment;
}

Json to_json(const down::Finish& finish) {
    Json json = {{"verdict", std::string(to_string(finish.verdict))},
                 {"cause", std::string(to_string(finish.cause))},
                 {"why", clipped(finish.why)}};
    if (finish.root) json["root"] = to_json(*finish.root);
    return json;
}

down::Finish read_finish(const Reader& in) {
    down::Finish finish;
    finish.verdict = in.verdict("verdict");
    finish.cause = in.cause("cause");
    finish.why = in.text("why");
    if (in.find("root") != nullptr) finish.root = read_failure(in.object("root"));
    return finish;
}

}  // namespace ty::rendezvous
