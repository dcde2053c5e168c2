// SPDX-License-Identifier: Apache-2.0
// CreateTrainingJob: everything wrong with a request is said at once, and nothing is stored unless
// the job can be started.
#include "api/sagemaker/checkpoints.h"
#include "api/sagemaker/document.h"
#include "api/sagemaker/fields.h"
#include "api/sagemaker/rules.h"
#include "api/sagemaker/service.h"
#include "api/sagemaker/translate.h"

#include <nlohmann/json.hpp>

namespace ty::api::sagemaker {

namespace {

void append(std::vector<Problem>& all, std::vector<Problem> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

/// The service's pattern knows no gs:// URIs; whether there is such storage is found out later.
void forgive_google(const shapes::CreateTrainingJobRequest& request, std::vector<Problem>& all) {
    if (request.checkpoint_config && request.checkpoint_config->s3_uri &&
        is_google_uri(*request.checkpoint_config->s3_uri))
        std::erase_if(all,
                      [](const Problem& found) { return found.path == "checkpointConfig.s3Uri"; });
}

[[noreturn]] void throw_problems(std::vector<Problem> problems) {
    std::string text = problems.size() == 1 ? problems[0].message : shape::violation_text(problems);
    throw Error(Code::invalid, "ValidationException", std::move(text), std::move(problems));
}

[[noreturn]] void throw_taken(const std::string& arn) {
    throw_error(
        Code::conflict, "ResourceInUse",
        "Training job names must be unique within an AWS account and region, and a training job "
        "with this name already exists ({})",
        arn);
}

}  // namespace

std::string create_training_job(Call& call) {
    const Json body = parse_body(call);
    auto request = shape::read<shapes::CreateTrainingJobRequest>(body);
    std::vector<Problem> violations = shape::check(request);
    forgive_google(request, violations);
    append(violations, find_missing(request));
    shape::require_none(std::move(violations));

    std::vector<Problem> problems = find_unsupported(call.operation, body);
    if (!request.serverless_job_config) append(problems, find_contradictions(request));
    if (!problems.empty()) throw_problems(std::move(problems));
    const auto tags = checked_tags(request.tags.value_or(std::vector<shapes::Tag>{}));

    Services& services = call.services;
    const std::string group(telemetry::kTrainingJobs);
    const std::string invocation(call.request.headers.get("amz-sdk-invocation-id"));
    // A job that exists keeps its metric definitions whatever a second request of its name says.
    const bool exists =
        services.jobs.find(call.caller.region, *request.training_job_name).has_value();
    if (exists && invocation.empty())
        throw_taken(
            job_arn(call.caller.region, services.settings.account, *request.training_job_name));

    jobs::JobSpec spec =
        job_spec_of(request, services, call.caller.region, find_warnings(call.operation, body));
    const std::string arn = spec.arn, name = spec.name;
    const auto definitions = metrics_of(request);
    if (!exists && !definitions.empty()) services.tap.watch(group, name, definitions);
    try {
        const jobs::Job job = services.jobs.create(
            std::move(spec), dump_json(stored_document(request)), tags, invocation);
        return dump_json({{"TrainingJobArn", job.spec.arn}});
    } catch (const Error& error) {
        if (error.code() == Code::conflict) throw_taken(arn);
        // Such as checkpoints under the prefix of another running job's.
        if (!exists && !definitions.empty()) services.tap.forget(group, name);
        throw;
    }
}

}  // namespace ty::api::sagemaker
