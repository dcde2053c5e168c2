// SPDX-License-Identifier: Apache-2.0
// The moving part of a Job as JSON, for the job_state table, and what the reconciler has to know of
// its spec without reading all of it. Only this program reads it; what does not fit is corruption,
// not a user's mistake. Members that say nothing are left out: it is written at every event.
#include "base/error.h"
#include "base/json.h"
#include "jobs/attempt_json.h"
#include "jobs/ledger.h"
#include "jobs/names.h"
#include "jobs/rows.h"

#include <nlohmann/json.hpp>

namespace ty::jobs {

namespace {

Json transition_out(const Transition& transition) {
    Json j = Json::object();
    j["status"] = to_string(transition.status);
    j["start"] = to_epoch_millis(transition.start);
    if (transition.end) j["end"] = to_epoch_millis(*transition.end);
    j["message"] = transition.message;
    return j;
}

Transition transition_in(const Json& j) {
    Transition transition;
    const auto status = parse_secondary(j.at("status").get_ref<const std::string&>());
    if (!status) throw_error(Code::corrupt, "", "unknown secondary status in the database");
    transition.status = *status;
    transition.start = from_epoch_millis(j.at("start").get<long long>());
    if (j.contains("end")) transition.end = from_epoch_millis(j.at("end").get<long long>());
    transition.message = j.at("message").get<std::string>();
    return transition;
}

Json faults_out(const FaultSchedule& schedule) {
    Json j = Json::object();
    j["kind"] = static_cast<int>(schedule.fault.kind);
    j["host"] = schedule.fault.host;
    j["time"] = schedule.fault.time.count();
    j["why"] = schedule.fault.why;
    j["every"] = schedule.every.count();
    j["seed"] = schedule.seed;
    j["drawn"] = schedule.drawn;
    j["next"] = to_epoch_millis(schedule.next);
    return j;
}

FaultSchedule faults_in(const Json& j) {
    FaultSchedule schedule;
    schedule.fault.kind = static_cast<Fault::Kind>(j.at("kind").get<int>());
    schedule.fault.host = j.at("host").get<std::string>();
    schedule.fault.time = milliseconds(j.at("time").get<long long>());
    schedule.fault.why = j.at("why").get<std::string>();
    schedule.every = milliseconds(j.at("every").get<long long>());
    schedule.seed = j.at("seed").get<std::uint64_t>();
    schedule.drawn = j.at("drawn").get<std::uint64_t>();
    schedule.next = from_epoch_millis(j.at("next").get<long long>());
    return schedule;
}

Json checkpoint_out(const plan::CheckpointCommitted& committed) {
    Json j = Json::object();
    j["id"] = committed.id;
    if (committed.step) j["step"] = *committed.step;
    j["bytes"] = committed.bytes;
    j["uploaded"] = committed.uploaded;
    j["files"] = committed.files;
    j["taken"] = to_epoch_millis(committed.taken);
    return j;
}

plan::CheckpointCommitted checkpoint_in(const Json& j) {
    plan::CheckpointCommitted committed;
    committed.id = j.at("id").get<std::string>();
    if (j.contains("step")) committed.step = j.at("step").get<std::int64_t>();
    committed.bytes = j.at("bytes").get<std::uint64_t>();
    committed.uploaded = j.at("uploaded").get<std::uint64_t>();
    committed.files = j.at("files").get<int>();
    committed.taken = from_epoch_millis(j.at("taken").get<long long>());
    return committed;
}

/// Of the spec: what the service needs of every live job after a restart.
Json promises_out(const JobSpec& spec) {
    Json j = Json::object();
    if (spec.spot) j["spot"] = true;
    if (spec.max_wait) j["max_wait"] = spec.max_wait->count();
    if (spec.retries != 0) j["retries"] = spec.retries;
    if (spec.node.checkpoint) {
        j["checkpoint"] = spec.node.checkpoint->uri;
        if (!spec.node.checkpoint->endpoint.empty())
            j["checkpoint_endpoint"] = spec.node.checkpoint->endpoint;
    }
    return j;
}

void promises_in(const Json& j, JobSpec& spec) {
    spec.spot = j.value("spot", false);
    if (j.contains("max_wait")) spec.max_wait = seconds(j.at("max_wait").get<long long>());
    spec.retries = j.value("retries", 0);
    if (!j.contains("checkpoint")) return;
    if (!spec.node.checkpoint) spec.node.checkpoint.emplace();
    spec.node.checkpoint->uri = j.at("checkpoint").get<std::string>();
    spec.node.checkpoint->endpoint = j.value("checkpoint_endpoint", std::string());
}

void counters_out(const Job& job, Json& j) {
    const auto put = [&j](const char* name, std::int64_t value) {
        if (value != 0) j[name] = value;
    };
    put("trained", job.trained.count());
    put("ran", job.ran.count());
    put("retried", job.retried);
    put("fruitless", job.fruitless);
    put("last_epoch", job.last_epoch);
    if (job.max_wait_over) j["max_wait_over"] = true;
    j["instances"] = job.instances;
}

void counters_in(const Json& j, Job& job) {
    job.ran = milliseconds(j.value("ran", 0LL));
    job.trained = milliseconds(j.value("trained", 0LL));
    job.retried = j.value("retried", 0);
    job.fruitless = j.value("fruitless", 0);
    job.last_epoch = j.value("last_epoch", std::int64_t(0));
    job.max_wait_over = j.value("max_wait_over", false);
    job.instances = j.value("instances", job.spec.instance_count);
    // A row of a version that knew one attempt only.
    if (!j.contains("instances") && job.training_start && job.training_end)
        job.trained = *job.training_end - *job.training_start;
}

}  // namespace

std::string state_to_json(const Job& job) {
    Json j = Json::object();
    Json transitions = Json::array();
    for (const Transition& transition : job.transitions)
        transitions.push_back(transition_out(transition));
    j["transitions"] = std::move(transitions);
    if (!job.failure_reason.empty()) j["failure_reason"] = job.failure_reason;
    if (job.training_start) j["training_start"] = to_epoch_millis(*job.training_start);
    if (job.training_end) j["training_end"] = to_epoch_millis(*job.training_end);
    j["stop_requested"] = job.stop_requested;
    j["model_uploaded"] = job.model_uploaded;
    counters_out(job, j);
    if (Json promises = promises_out(job.spec); !promises.empty()) j["spec"] = std::move(promises);
    Json attempts = Json::array();
    for (const Attempt& attempt : job.attempts) attempts.push_back(attempt_out(attempt));
    j["attempts"] = std::move(attempts);
    if (job.faults) j["faults"] = faults_out(*job.faults);
    if (job.checkpoint) j["checkpoint"] = checkpoint_out(*job.checkpoint);
    if (job.progress)
        j["progress"] = {{"step", job.progress->step},
                         {"total", job.progress->total},
                         {"message", job.progress->message}};
    std::string text = dump_json(j);
    if (!(job.ledger == LedgerState{})) {
        text.pop_back();
        text.append(",\"ledger\":").append(to_json(job.ledger)).append("}");
    }
    return text;
}

void state_from_json(std::string_view text, Job& job) {
    try {
        const Json j = parse_json(text);
        job.transitions.clear();
        for (const Json& transition : j.at("transitions"))
            job.transitions.push_back(transition_in(transition));
        if (job.transitions.empty())
            throw_error(Code::corrupt, "", "a job without transitions in the database");
        job.failure_reason = j.value("failure_reason", std::string());
        const auto instant = [&j](const char* name) -> std::optional<Instant> {
            if (!j.contains(name)) return std::nullopt;
            return from_epoch_millis(j.at(name).get<long long>());
        };
        job.training_start = instant("training_start");
        job.training_end = instant("training_end");
        job.stop_requested = j.at("stop_requested").get<bool>();
        job.model_uploaded = j.at("model_uploaded").get<bool>();
        counters_in(j, job);
        if (j.contains("spec")) promises_in(j.at("spec"), job.spec);
        job.attempts.clear();
        for (const Json& attempt : j.at("attempts"))
            job.attempts.push_back(attempt_in(attempt, job));
        if (j.contains("faults")) job.faults = faults_in(j.at("faults"));
        if (j.contains("checkpoint")) job.checkpoint = checkpoint_in(j.at("checkpoint"));
        if (const auto progress = j.find("progress"); progress != j.end())
            job.progress = plan::Progress{progress->at("step").get<std::int64_t>(),
                                          progress->at("total").get<std::int64_t>(),
                                          progress->at("message").get<std::string>()};
        if (j.contains("ledger")) job.ledger = ledger_from_json(dump_json(j.at("ledger")));
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::corrupt, "", "the stored state of a job cannot be read: {}",
                    error.what());
    }
}

}  // namespace ty::jobs
