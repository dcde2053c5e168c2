// SPDX-License-Identifier: Apache-2.0
// What AWS's description of a job has no words for: attempts, nodes, the newest checkpoint, faults
// to come, progress.
#include "api/control/control.h"

#include <nlohmann/json.hpp>

namespace ty::api::control {

namespace {

std::string_view phase_name(const std::optional<plan::Phase>& phase) {
    if (!phase) return "Starting";
    switch (*phase) {
        case plan::Phase::starting:
            return "Starting";
        case plan::Phase::downloading:
            return "Downloading";
        case plan::Phase::training:
            return "Training";
        case plan::Phase::uploading:
            return "Uploading";
    }
    return "";
}

std::string_view state_of(const jobs::Node& node) {
    if (node.released) return "Gone";
    if (node.finished) return "Finished";
    if (!node.launched) return "Waiting";
    return phase_name(node.phase);
}

Json nodes_of(const jobs::Attempt& attempt) {
    Json nodes = Json::array();
    for (const auto& [name, node] : attempt.nodes)
        nodes.push_back({{"name", name}, {"host", node.host}, {"state", state_of(node)}});
    return nodes;
}

Json checkpoint_of(const plan::CheckpointCommitted& checkpoint) {
    Json out = {{"id", checkpoint.id}};
    out["step"] = checkpoint.step ? Json(*checkpoint.step) : Json(nullptr);
    out["taken"] = format_iso8601(checkpoint.taken);
    out["size"] = checkpoint.bytes;
    out["files"] = checkpoint.files;
    return out;
}

Json faults_of(const jobs::FaultSchedule& schedule) {
    constexpr const char* kKinds[] = {"notice", "kill", "freeze", "partition"};
    Json out = {{"kind", kKinds[static_cast<std::size_t>(schedule.fault.kind)]},
                {"every", std::chrono::duration<double>(schedule.every).count()},
                {"seed", schedule.seed},
                {"next", format_iso8601(schedule.next)}};
    if (!schedule.fault.host.empty()) out["node"] = schedule.fault.host;
    return out;
}

}  // namespace

Json show_job(const Asked& asked) {
    const jobs::Job job = require_job(asked);
    const jobs::Ledger ledger = jobs::ledger_of(job, asked.call.services.clock.now());
    Json out = {{"job", job.spec.name},
                {"status", jobs::to_string(job.status)},
                {"secondary", jobs::to_string(job.secondary())},
                {"spot", job.spec.spot},
                {"elastic", nullptr},
                {"instances", job.instances > 0 ? job.instances : job.spec.instance_count},
                {"attempt", job.attempts.empty() ? 0 : job.attempts.back().number},
                {"interruptions", ledger.interruptions},
                {"restarts", ledger.restarts},
                {"checkpoint", nullptr},
                {"progress", nullptr},
                {"faults", nullptr},
                {"nodes", Json::array()}};
    if (const auto& elastic = job.spec.node.elastic)
        out["elastic"] = {{"min", elastic->min_nodes}, {"max", elastic->max_nodes}};
    if (job.checkpoint) out["checkpoint"] = checkpoint_of(*job.checkpoint);
    if (job.progress)
        out["progress"] = {{"step", job.progress->step},
                           {"total", job.progress->total},
                           {"message", job.progress->message}};
    if (job.faults) out["faults"] = faults_of(*job.faults);
    if (!job.attempts.empty()) out["nodes"] = nodes_of(job.attempts.back());
    return out;
}

}  // namespace ty::api::control
