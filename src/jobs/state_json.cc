// SPDX-License-Identifier: Apache-2.0
// The moving part of a Job as JSON, for the job_state table. Only this program reads it; what does
// not fit is corruption, not a user's mistake.
#include "base/error.h"
#include "base/json.h"
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

Json attempt_out(const Attempt& attempt) {
    Json j = Json::object();
    j["id"] = attempt.id.str();
    j["number"] = attempt.number;
    for (const auto& [host, seq] : attempt.seen) j["seen"][host] = seq;
    for (const auto& [host, phase] : attempt.phases) j["phases"][host] = static_cast<int>(phase);
    for (const auto& [host, outcome] : attempt.finished) {
        Json o = Json::object();
        o["kind"] = static_cast<int>(outcome.kind);
        o["reason"] = outcome.reason;
        if (outcome.exit_code) o["exit_code"] = *outcome.exit_code;
        j["finished"][host] = std::move(o);
    }
    if (!attempt.first_failed.empty()) j["first_failed"] = attempt.first_failed;
    j["launched"] = attempt.launched;
    j["released"] = attempt.released;
    return j;
}

Attempt attempt_in(const Json& j) {
    Attempt attempt;
    attempt.id = AttemptId(j.at("id").get<std::string>());
    attempt.number = j.at("number").get<int>();
    if (const auto seen = j.find("seen"); seen != j.end())
        for (const auto& [host, seq] : seen->items()) attempt.seen[host] = seq.get<std::uint64_t>();
    if (const auto phases = j.find("phases"); phases != j.end())
        for (const auto& [host, phase] : phases->items())
            attempt.phases[host] = static_cast<plan::Phase>(phase.get<int>());
    if (const auto finished = j.find("finished"); finished != j.end()) {
        for (const auto& [host, o] : finished->items()) {
            plan::Outcome outcome;
            outcome.kind = static_cast<plan::Outcome::Kind>(o.at("kind").get<int>());
            outcome.reason = o.at("reason").get<std::string>();
            if (o.contains("exit_code")) outcome.exit_code = o.at("exit_code").get<int>();
            attempt.finished.emplace(host, std::move(outcome));
        }
    }
    attempt.first_failed = j.value("first_failed", std::string());
    attempt.launched = j.at("launched").get<bool>();
    attempt.released = j.at("released").get<bool>();
    return attempt;
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
    Json attempts = Json::array();
    for (const Attempt& attempt : job.attempts) attempts.push_back(attempt_out(attempt));
    j["attempts"] = std::move(attempts);
    return dump_json(j);
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
        job.attempts.clear();
        for (const Json& attempt : j.at("attempts")) job.attempts.push_back(attempt_in(attempt));
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::corrupt, "", "the stored state of a job cannot be read: {}",
                    error.what());
    }
}

}  // namespace ty::jobs
