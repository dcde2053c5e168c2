// SPDX-License-Identifier: Apache-2.0
// StopTrainingJob is asynchronous: the answer says that the wish is stored, the job turns Stopping.
#include "api/sagemaker/service.h"

namespace ty::api::sagemaker {

namespace {

void refuse_terminal(const jobs::Job& job) {
    if (jobs::is_terminal(job.status))
        throw_error(Code::invalid, "ValidationException",
                    "The request was rejected because the training job is in status {}",
                    jobs::to_string(job.status));
}

}  // namespace

std::string stop_training_job(Call& call) {
    const auto request = read_request<shapes::StopTrainingJobRequest>(call);
    const jobs::Job job = require_job(call, *request.training_job_name);
    refuse_terminal(job);
    if (job.status == jobs::Status::stopping) return {};
    try {
        call.services.jobs.request_stop(job.spec.region, job.spec.name);
    } catch (const Error& error) {
        // The job ended, or was deleted, since we looked.
        if (error.code() == Code::not_found) throw_no_resource();
        if (error.code() != Code::invalid) throw;
        refuse_terminal(require_job(call, *request.training_job_name));
        throw;
    }
    return {};
}

}  // namespace ty::api::sagemaker
