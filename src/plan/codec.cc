// SPDX-License-Identifier: Apache-2.0
// JSON of the waist, both ways. One translation unit and plain functions (no field-table
// templates): the agent links this, and its size is budgeted.
//
// Writing puts every field. Reading: unknown members are ignored, a missing member keeps the
// struct's default unless it is named by need(), a wrong type or an unknown variant is refused with
// its path.
#include "base/error.h"
#include "base/json.h"
#include "plan/plan.h"

#include <nlohmann/json.hpp>

#include <array>
#include <limits>
#include <span>

namespace ty::plan {

namespace {

constexpr std::array<std::string_view, 3> kInputModes = {"File", "FastFile", "Pipe"};
constexpr std::array<std::string_view, 2> kDistributions = {"FullyReplicated", "ShardedByS3Key"};
constexpr std::array<std::string_view, 4> kDataTypes = {"S3Prefix", "ManifestFile",
                                                        "AugmentedManifestFile", "FileSystem"};
constexpr std::array<std::string_view, 2> kCompressions = {"GZIP", "NONE"};
constexpr std::array<std::string_view, 4> kPhases = {"starting", "downloading", "training",
                                                     "uploading"};
constexpr std::array<std::string_view, 6> kOutcomes = {"completed", "failed",      "stopped",
                                                       "timed_out", "agent_error", "interrupted"};

template <typename Enum>
std::string word(Enum value, std::span<const std::string_view> names) {
    return std::string(names[static_cast<std::size_t>(value)]);
}

// ---- reading
// ---------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& path, std::string_view wanted) {
    throw_error(Code::invalid, "MalformedPlan", "plan message: {} must be {}", path, wanted);
}

/// One JSON object being read, with its path for messages. Member functions leave `into` alone when
/// the member is absent.
class Reader {
public:
    Reader(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
        if (!value_.is_object()) refuse(path_, "an object");
    }

    const Json* find(const char* name) const {
        const auto found = value_.find(name);
        return found == value_.end() || found->is_null() ? nullptr : &*found;
    }
    const Json& need(const char* name) const {
        const Json* found = find(name);
        if (found == nullptr) refuse(at(name), "given");
        return *found;
    }
    std::string at(const char* name) const { return path_ + "." + name; }

    void read(const char* name, std::string& into) const {
        if (const Json* found = find(name)) into = text(*found, at(name));
    }
    void read(const char* name, bool& into) const {
        const Json* found = find(name);
        if (found == nullptr) return;
        if (!found->is_boolean()) refuse(at(name), "true or false");
        into = found->get<bool>();
    }
    void read(const char* name, int& into) const {
        into = static_cast<int>(
            integer(name, into, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
    }
    void read(const char* name, std::int64_t& into) const {
        into = integer(name, into, std::numeric_limits<std::int64_t>::min(),
                       std::numeric_limits<std::int64_t>::max());
    }
    void read(const char* name, std::uint64_t& into) const {
        into = static_cast<std::uint64_t>(integer(name, static_cast<std::int64_t>(into), 0,
                                                  std::numeric_limits<std::int64_t>::max()));
    }
    void read(const char* name, seconds& into) const {
        into = seconds(integer(name, into.count(), 0, kFarSeconds));
    }
    void read(const char* name, milliseconds& into) const {
        into = milliseconds(integer(name, into.count(), 0, kFarSeconds * 1000));
    }
    void read(const char* name, Instant& into) const {
        into = from_epoch_millis(integer(name, to_epoch_millis(into), 0, kFarSeconds * 1000));
    }
    void read(const char* name, Bytes& into) const {
        std::uint64_t count = into.count();
        read(name, count);
        into = Bytes(count);
    }
    void read(const char* name, std::vector<std::string>& into) const {
        const Json* found = array(name);
        if (found == nullptr) return;
        into.clear();
        into.reserve(found->size());
        for (const Json& item : *found) into.push_back(text(item, at(name)));
    }
    void read(const char* name, Pairs& into) const {
        const Json* found = array(name);
        if (found == nullptr) return;
        into.clear();
        into.reserve(found->size());
        for (const Json& item : *found) {
            if (!item.is_array() || item.size() != 2) refuse(at(name), "a list of pairs");
            into.emplace_back(text(item[0], at(name)), text(item[1], at(name)));
        }
    }
    /// Index into `names`, or `otherwise` when absent.
    std::size_t choice(const char* name, std::span<const std::string_view> names,
                       std::size_t otherwise) const {
        const Json* found = find(name);
        if (found == nullptr) return otherwise;
        const std::string given = text(*found, at(name));
        for (std::size_t i = 0; i < names.size(); ++i)
            if (names[i] == given) return i;
        std::string all;
        for (const std::string_view known : names)
            all.append(all.empty() ? "" : ", ").append(known);
        throw_error(Code::invalid, "MalformedPlan",
                    "plan message: {} is \"{}\", which this version does not know; it knows {}",
                    at(name), truncate(given), all);
    }
    const Json* array(const char* name) const {
        const Json* found = find(name);
        if (found != nullptr && !found->is_array()) refuse(at(name), "a list");
        return found;
    }

private:
    static constexpr std::int64_t kFarSeconds = 253'402'300'799;  // year 9999

    static std::string truncate(const std::string& value) { return value.substr(0, 64); }
    static std::string text(const Json& value, const std::string& path) {
        if (!value.is_string()) refuse(path, "text");
        return value.get_ref<const std::string&>();
    }
    std::int64_t integer(const char* name, std::int64_t otherwise, std::int64_t low,
                         std::int64_t high) const {
        const Json* found = find(name);
        if (found == nullptr) return otherwise;
        if (!found->is_number_integer()) refuse(at(name), "a whole number");
        const bool huge = found->is_number_unsigned() &&
                          found->get<std::uint64_t>() > static_cast<std::uint64_t>(high);
        const std::int64_t value = huge ? 0 : found->get<std::int64_t>();
        if (huge || value < low || value > high)
            refuse(at(name), fmt::format("between {} and {}", low, high));
        return value;
    }

    const Json& value_;
    std::string path_;
};

Json pairs_out(const Pairs& pairs) {
    Json list = Json::array();
    for (const auto& [key, value] : pairs) {
        Json pair = Json::array();
        pair.push_back(key);
        pair.push_back(value);
        list.push_back(std::move(pair));
    }
    return list;
}

Json texts_out(const std::vector<std::string>& texts) {
    Json list = Json::array();
    for (const std::string& text : texts) list.push_back(text);
    return list;
}

// ---- the parts of a plan
// ---------------------------------------------------------------------------

Json out(const Channel& c) {
    Json j = Json::object();
    j["name"] = c.name;
    j["data_type"] = word(c.data_type, kDataTypes);
    j["uri"] = c.uri;
    j["distribution"] = word(c.distribution, kDistributions);
    j["input_mode"] = word(c.input_mode, kInputModes);
    j["content_type"] = c.content_type;
    j["record_wrapper"] = c.record_wrapper;
    j["compression"] = c.compression;
    return j;
}

Channel channel_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Channel c;
    in.need("name");
    in.read("name", c.name);
    c.data_type = static_cast<DataType>(in.choice("data_type", kDataTypes, 0));
    in.read("uri", c.uri);
    c.distribution = static_cast<Distribution>(in.choice("distribution", kDistributions, 0));
    c.input_mode = static_cast<InputMode>(in.choice("input_mode", kInputModes, 0));
    in.read("content_type", c.content_type);
    in.read("record_wrapper", c.record_wrapper);
    in.read("compression", c.compression);
    return c;
}

Json out(const Environment& e) {
    Json j = Json::object();
    j["name"] = e.name;
    j["image"] = e.image;
    j["description"] = e.description;
    j["python"] = e.python;
    j["path"] = texts_out(e.path);
    j["readable"] = texts_out(e.readable);
    j["variables"] = pairs_out(e.variables);
    j["entrypoint"] = texts_out(e.entrypoint);
    j["code"] = e.code;
    j["toolkit"] = e.toolkit;
    j["launcher"] = e.launcher;
    return j;
}

Environment environment_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Environment e;
    in.read("name", e.name);
    in.read("image", e.image);
    in.read("description", e.description);
    in.read("python", e.python);
    in.read("path", e.path);
    in.read("readable", e.readable);
    in.read("variables", e.variables);
    in.read("entrypoint", e.entrypoint);
    in.read("code", e.code);
    in.read("toolkit", e.toolkit);
    in.read("launcher", e.launcher);
    return e;
}

Json out(const Limits& l) {
    Json j = Json::object();
    j["max_runtime"] = l.max_runtime.count();
    j["stop_grace"] = l.stop_grace.count();
    j["shared_memory"] = l.shared_memory.count();
    j["memory"] = l.memory.count();
    j["cpus"] = l.cpus;
    j["processes"] = l.processes;
    return j;
}

Limits limits_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Limits l;
    in.read("max_runtime", l.max_runtime);
    in.read("stop_grace", l.stop_grace);
    in.read("shared_memory", l.shared_memory);
    in.read("memory", l.memory);
    in.read("cpus", l.cpus);
    in.read("processes", l.processes);
    return l;
}

Json out(const Credentials& c) {
    Json j = Json::object();
    j["access_key"] = c.access_key;
    j["secret_key"] = c.secret_key;
    j["session_token"] = c.session_token;
    return j;
}

Credentials credentials_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Credentials c;
    in.read("access_key", c.access_key);
    in.read("secret_key", c.secret_key);
    in.read("session_token", c.session_token);
    return c;
}

Json out(const InstanceGroup& g) {
    Json j = Json::object();
    j["name"] = g.name;
    j["instance_type"] = g.instance_type;
    j["hosts"] = texts_out(g.hosts);
    return j;
}

InstanceGroup group_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    InstanceGroup g;
    in.need("name");
    in.read("name", g.name);
    in.read("instance_type", g.instance_type);
    in.read("hosts", g.hosts);
    return g;
}

Json out(const Checkpoint& c) {
    Json j = Json::object();
    j["uri"] = c.uri;
    j["local_path"] = c.local_path;
    j["keep"] = c.keep;
    j["resume"] = c.resume;
    if (!c.endpoint.empty()) {
        j["endpoint"] = c.endpoint;
        j["credentials"] = out(c.credentials);
    }
    return j;
}

Checkpoint checkpoint_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Checkpoint c;
    in.need("uri");
    in.read("uri", c.uri);
    in.read("local_path", c.local_path);
    in.read("keep", c.keep);
    in.read("resume", c.resume);
    in.read("endpoint", c.endpoint);
    if (const Json* found = in.find("credentials"))
        c.credentials = credentials_in(*found, path + ".credentials");
    return c;
}

Json out(const Elastic& e) {
    Json j = Json::object();
    j["min_nodes"] = e.min_nodes;
    j["max_nodes"] = e.max_nodes;
    j["max_restarts"] = e.max_restarts;
    j["token"] = e.token;
    return j;
}

Elastic elastic_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Elastic e;
    in.read("min_nodes", e.min_nodes);
    in.read("max_nodes", e.max_nodes);
    in.read("max_restarts", e.max_restarts);
    in.read("token", e.token);
    return e;
}

Json out(const NodePlan& p) {
    Json j = Json::object();
    j["version"] = p.version;
    j["attempt"] = p.attempt.str();
    j["job_name"] = p.job_name;
    j["job_arn"] = p.job_arn;
    j["region"] = p.region;
    j["account"] = p.account;
    j["role_arn"] = p.role_arn;
    j["endpoint"] = p.endpoint;
    j["credentials"] = out(p.credentials);
    j["hosts"] = texts_out(p.hosts);
    j["host"] = p.host;
    j["instance_type"] = p.instance_type;
    j["instance_group"] = p.instance_group;
    Json groups = Json::array();
    for (const InstanceGroup& group : p.groups) groups.push_back(out(group));
    j["groups"] = std::move(groups);
    j["attempt_number"] = p.attempt_number;
    j["gpus"] = p.gpus;
    j["stream"] = p.stream;
    j["environment"] = out(p.environment);
    j["entrypoint"] = texts_out(p.entrypoint);
    j["arguments"] = texts_out(p.arguments);
    j["hyperparameters"] = pairs_out(p.hyperparameters);
    j["variables"] = pairs_out(p.variables);
    Json channels = Json::array();
    for (const Channel& channel : p.channels) channels.push_back(out(channel));
    j["channels"] = std::move(channels);
    Json output = Json::object();
    output["uri"] = p.output.uri;
    output["compression"] = word(p.output.compression, kCompressions);
    j["output"] = std::move(output);
    if (p.checkpoint) j["checkpoint"] = out(*p.checkpoint);
    if (p.elastic) j["elastic"] = out(*p.elastic);
    j["limits"] = out(p.limits);
    j["warnings"] = texts_out(p.warnings);
    j["sdk_files"] = pairs_out(p.sdk_files);
    return j;
}

void check_version(const Reader& in) {
    int version = 0;
    in.need("version");
    in.read("version", version);
    if (version != kPlanVersion)
        throw_error(
            Code::unsupported, "PlanVersion",
            "the plan has version {} and this program understands {}; use the daemon and the "
            "agent of one installation",
            version, kPlanVersion);
}

NodePlan plan_in(const Json& json) {
    const Reader in(json, "plan");
    check_version(in);
    NodePlan p;
    std::string attempt;
    in.need("attempt");
    in.read("attempt", attempt);
    p.attempt = AttemptId(std::move(attempt));
    in.read("job_name", p.job_name);
    in.read("job_arn", p.job_arn);
    in.read("region", p.region);
    in.read("account", p.account);
    in.read("role_arn", p.role_arn);
    in.read("endpoint", p.endpoint);
    if (const Json* found = in.find("credentials"))
        p.credentials = credentials_in(*found, "plan.credentials");
    in.read("hosts", p.hosts);
    in.need("host");
    in.read("host", p.host);
    in.read("instance_type", p.instance_type);
    in.read("instance_group", p.instance_group);
    if (const Json* found = in.array("groups"))
        for (const Json& item : *found) p.groups.push_back(group_in(item, "plan.groups"));
    in.read("attempt_number", p.attempt_number);
    in.read("gpus", p.gpus);
    in.read("stream", p.stream);
    if (const Json* found = in.find("environment"))
        p.environment = environment_in(*found, "plan.environment");
    in.read("entrypoint", p.entrypoint);
    in.read("arguments", p.arguments);
    in.read("hyperparameters", p.hyperparameters);
    in.read("variables", p.variables);
    if (const Json* found = in.array("channels"))
        for (const Json& item : *found) p.channels.push_back(channel_in(item, "plan.channels"));
    if (const Json* found = in.find("output")) {
        const Reader output(*found, "plan.output");
        output.read("uri", p.output.uri);
        p.output.compression =
            static_cast<Output::Compression>(output.choice("compression", kCompressions, 0));
    }
    if (const Json* found = in.find("checkpoint"))
        p.checkpoint = checkpoint_in(*found, "plan.checkpoint");
    if (const Json* found = in.find("elastic")) p.elastic = elastic_in(*found, "plan.elastic");
    if (const Json* found = in.find("limits")) p.limits = limits_in(*found, "plan.limits");
    in.read("warnings", p.warnings);
    in.read("sdk_files", p.sdk_files);
    return p;
}

// ---- events and commands
// -----------------------------------------------------------------------------

Json out(const Outcome& o) {
    Json j = Json::object();
    j["kind"] = word(o.kind, kOutcomes);
    j["reason"] = o.reason;
    if (o.exit_code) j["exit_code"] = *o.exit_code;
    return j;
}

Outcome outcome_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Outcome o;
    in.need("kind");
    o.kind = static_cast<Outcome::Kind>(in.choice("kind", kOutcomes, 0));
    in.read("reason", o.reason);
    if (in.find("exit_code") != nullptr) {
        int code = 0;
        in.read("exit_code", code);
        o.exit_code = code;
    }
    return o;
}

struct WritePayload {
    Json operator()(const AgentUp& up) const {
        Json j = Json::object();
        j["type"] = "AgentUp";
        j["pid"] = up.pid;
        j["sandbox"] = up.sandbox;
        return j;
    }
    Json operator()(const PhaseChanged& changed) const {
        Json j = Json::object();
        j["type"] = "PhaseChanged";
        j["phase"] = word(changed.phase, kPhases);
        j["message"] = changed.message;
        return j;
    }
    Json operator()(const Finished& finished) const {
        Json j = Json::object();
        j["type"] = "Finished";
        j["outcome"] = out(finished.outcome);
        j["model_uploaded"] = finished.model_uploaded;
        return j;
    }
    Json operator()(const Collected& collected) const {
        Json j = Json::object();
        j["type"] = "Collected";
        j["model"] = collected.model;
        j["output"] = collected.output;
        return j;
    }
    Json operator()(const CheckpointCommitted& committed) const {
        Json j = Json::object();
        j["type"] = "CheckpointCommitted";
        j["id"] = committed.id;
        if (committed.step) j["step"] = *committed.step;
        j["bytes"] = committed.bytes;
        j["uploaded"] = committed.uploaded;
        j["files"] = committed.files;
        j["taken"] = to_epoch_millis(committed.taken);
        return j;
    }
    Json operator()(const CheckpointRestored& restored) const {
        Json j = Json::object();
        j["type"] = "CheckpointRestored";
        j["id"] = restored.id;
        j["bytes"] = restored.bytes;
        j["skipped"] = restored.skipped;
        return j;
    }
    Json operator()(const GenerationChanged& changed) const {
        Json j = Json::object();
        j["type"] = "GenerationChanged";
        j["generation"] = changed.generation;
        j["nodes"] = changed.nodes;
        j["running"] = changed.running;
        j["cause"] = changed.cause;
        return j;
    }
    Json operator()(const Progress& progress) const {
        Json j = Json::object();
        j["type"] = "Progress";
        j["step"] = progress.step;
        j["total"] = progress.total;
        j["message"] = progress.message;
        return j;
    }
};

Json out(const Event& event) {
    Json j = Json::object();
    j["seq"] = event.seq;
    j["time"] = to_epoch_millis(event.time);
    j["host"] = event.host;
    j["payload"] = std::visit(WritePayload{}, event.payload);
    return j;
}

Payload payload_in(const Json& json, const std::string& path) {
    constexpr std::array<std::string_view, 8> kTypes = {"AgentUp",
                                                        "PhaseChanged",
                                                        "Finished",
                                                        "Collected",
                                                        "CheckpointCommitted",
                                                        "CheckpointRestored",
                                                        "GenerationChanged",
                                                        "Progress"};
    const Reader in(json, path);
    in.need("type");
    switch (in.choice("type", kTypes, 0)) {
        case 0: {
            AgentUp up;
            in.read("pid", up.pid);
            in.read("sandbox", up.sandbox);
            return up;
        }
        case 1: {
            PhaseChanged changed;
            in.need("phase");
            changed.phase = static_cast<Phase>(in.choice("phase", kPhases, 0));
            in.read("message", changed.message);
            return changed;
        }
        case 2: {
            Finished finished;
            finished.outcome = outcome_in(in.need("outcome"), path + ".outcome");
            in.read("model_uploaded", finished.model_uploaded);
            return finished;
        }
        case 3: {
            Collected collected;
            in.read("model", collected.model);
            in.read("output", collected.output);
            return collected;
        }
        case 4: {
            CheckpointCommitted committed;
            in.need("id");
            in.read("id", committed.id);
            if (in.find("step") != nullptr) in.read("step", committed.step.emplace());
            in.read("bytes", committed.bytes);
            in.read("uploaded", committed.uploaded);
            in.read("files", committed.files);
            in.read("taken", committed.taken);
            return committed;
        }
        case 5: {
            CheckpointRestored restored;
            in.read("id", restored.id);
            in.read("bytes", restored.bytes);
            in.read("skipped", restored.skipped);
            return restored;
        }
        case 6: {
            GenerationChanged changed;
            in.need("generation");
            in.read("generation", changed.generation);
            in.read("nodes", changed.nodes);
            in.read("running", changed.running);
            in.read("cause", changed.cause);
            return changed;
        }
        default: {
            Progress progress;
            in.read("step", progress.step);
            in.read("total", progress.total);
            in.read("message", progress.message);
            return progress;
        }
    }
}

Event event_in(const Json& json, const std::string& path) {
    const Reader in(json, path);
    Event event;
    in.need("seq");
    in.read("seq", event.seq);
    if (event.seq == 0) refuse(path + ".seq", "1 or more");
    in.need("time");
    in.read("time", event.time);
    in.need("host");
    in.read("host", event.host);
    event.payload = payload_in(in.need("payload"), path + ".payload");
    return event;
}

struct WriteCommand {
    Json operator()(const Stop& stop) const {
        return {{"type", "Stop"}, {"grace", stop.grace.count()}};
    }
    Json operator()(const Interrupt& interrupt) const {
        return {
            {"type", "Interrupt"}, {"notice", interrupt.notice.count()}, {"why", interrupt.why}};
    }
    Json operator()(const Freeze& freeze) const {
        return {{"type", "Freeze"}, {"time", freeze.time.count()}};
    }
    Json operator()(const Partition& partition) const {
        return {{"type", "Partition"}, {"time", partition.time.count()}};
    }
    Json operator()(const Finish& finish) const {
        return {{"type", "Finish"}, {"parts", texts_out(finish.parts)}};
    }
};

Json out(const Command& command) {
    return std::visit(WriteCommand{}, command);
}

Command command_in(const Json& json, const std::string& path) {
    constexpr std::array<std::string_view, 5> kTypes = {"Stop", "Interrupt", "Freeze", "Partition",
                                                        "Finish"};
    const Reader in(json, path);
    in.need("type");
    switch (in.choice("type", kTypes, 0)) {
        case 0: {
            Stop stop;
            in.read("grace", stop.grace);
            return stop;
        }
        case 1: {
            Interrupt interrupt;
            in.read("notice", interrupt.notice);
            in.read("why", interrupt.why);
            return interrupt;
        }
        case 2: {
            Freeze freeze;
            in.read("time", freeze.time);
            return freeze;
        }
        case 3: {
            Partition partition;
            in.read("time", partition.time);
            return partition;
        }
        default: {
            Finish finish;
            in.read("parts", finish.parts);
            return finish;
        }
    }
}

}  // namespace

std::string to_json(const NodePlan& plan) {
    return dump_json(out(plan));
}
NodePlan plan_from_json(std::string_view text) {
    return plan_in(parse_json(text));
}

std::string to_json(const Event& event) {
    return dump_json(out(event));
}
Event event_from_json(std::string_view text) {
    return event_in(parse_json(text), "event");
}

std::string to_json(const Environment& environment) {
    return dump_json(out(environment));
}
Environment environment_from_json(std::string_view text) {
    return environment_in(parse_json(text), "environment");
}

std::string to_json(const Command& command) {
    return dump_json(out(command));
}
Command command_from_json(std::string_view text) {
    return command_in(parse_json(text), "command");
}

std::string to_json(const SyncRequest& request) {
    Json j = Json::object();
    j["host"] = request.host;
    Json events = Json::array();
    for (const Event& event : request.events) events.push_back(out(event));
    j["events"] = std::move(events);
    j["wait"] = request.wait.count();
    j["commands_seen"] = request.commands_seen;
    return dump_json(j);
}

SyncRequest sync_request_from_json(std::string_view text) {
    const Json json = parse_json(text);
    const Reader in(json, "sync");
    SyncRequest request;
    in.need("host");
    in.read("host", request.host);
    if (const Json* found = in.array("events"))
        for (const Json& item : *found) request.events.push_back(event_in(item, "sync.events"));
    in.read("wait", request.wait);
    in.read("commands_seen", request.commands_seen);
    return request;
}

std::string to_json(const SyncReply& reply) {
    Json j = Json::object();
    j["acknowledged"] = reply.acknowledged;
    j["command_number"] = reply.command_number;
    if (reply.command) j["command"] = out(*reply.command);
    j["gone"] = reply.gone;
    return dump_json(j);
}

SyncReply sync_reply_from_json(std::string_view text) {
    const Json json = parse_json(text);
    const Reader in(json, "reply");
    SyncReply reply;
    in.read("acknowledged", reply.acknowledged);
    in.read("command_number", reply.command_number);
    if (const Json* found = in.find("command")) reply.command = command_in(*found, "reply.command");
    in.read("gone", reply.gone);
    return reply;
}

}  // namespace ty::plan
