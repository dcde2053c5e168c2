// SPDX-License-Identifier: Apache-2.0
// UpdateTrainingJob: what it changes has no effect on a job here, so it is recorded and described.
#include "api/sagemaker/service.h"

#include <nlohmann/json.hpp>

namespace ty::api::sagemaker {

namespace {

void update_profiler(Json& document, const shapes::UpdateTrainingJobRequest& request) {
    if (request.profiler_config) {
        Json& profiler = document["ProfilerConfig"];
        if (!profiler.is_object()) profiler = Json::object();
        profiler.update(shape::write(*request.profiler_config));
        const bool off = profiler.value("DisableProfiler", false);
        document["ProfilingStatus"] = off ? "Disabled" : "Enabled";
    }
    if (request.profiler_rule_configurations) {
        Json& rules = document["ProfilerRuleConfigurations"];
        if (!rules.is_array()) rules = Json::array();
        for (const auto& rule : *request.profiler_rule_configurations)
            rules.push_back(shape::write(rule));
    }
}

}  // namespace

std::string update_training_job(Call& call) {
    const auto request = read_request<shapes::UpdateTrainingJobRequest>(call);
    const jobs::Job job = require_job(call, *request.training_job_name);
    if (jobs::is_terminal(job.status) && !request.resource_config)
        throw_error(Code::invalid, "ValidationException",
                    "The request was rejected because the training job is in status {}",
                    jobs::to_string(job.status));
    const bool kept_alive = request.resource_config &&
                            request.resource_config->keep_alive_period_in_seconds.value_or(0) > 0;
    if (kept_alive && job.spec.spot)
        throw_error(Code::invalid, "ValidationException",
                    "KeepAlivePeriodInSeconds cannot be given to {}, which uses managed spot "
                    "training",
                    job.spec.arn);
    Json document = parse_json(job.document);
    update_profiler(document, request);
    if (request.resource_config)
        document["ResourceConfig"].update(shape::write(*request.resource_config));
    if (request.remote_debug_config) {
        Json& remote = document["RemoteDebugConfig"];
        if (!remote.is_object()) remote = Json::object();
        remote.update(shape::write(*request.remote_debug_config));
    }
    call.services.jobs.update_document(job.spec.region, job.spec.name, dump_json(document));
    return dump_json({{"TrainingJobArn", job.spec.arn}});
}

}  // namespace ty::api::sagemaker
