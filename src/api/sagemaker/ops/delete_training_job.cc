// SPDX-License-Identifier: Apache-2.0
// DeleteTrainingJob forgets a finished job. Its logs, metrics and artefacts stay, as on AWS.
#include "api/sagemaker/service.h"

namespace ty::api::sagemaker {

std::string delete_training_job(Call& call) {
    const auto request = read_request<shapes::DeleteTrainingJobRequest>(call);
    const jobs::Job job = require_job(call, *request.training_job_name);
    if (!jobs::is_terminal(job.status))
        throw_error(
            Code::conflict, "ResourceInUse",
            "The training job {} is in status {}: stop it and wait until it has ended before "
            "deleting it",
            job.spec.arn, jobs::to_string(job.status));
    try {
        call.services.jobs.remove(job.spec.region, job.spec.name);
    } catch (const Error& error) {
        if (error.code() == Code::not_found) throw_no_resource();
        throw;
    }
    call.services.tap.forget(std::string(telemetry::kTrainingJobs), job.spec.name);
    return {};
}

}  // namespace ty::api::sagemaker
