// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/document.h"
#include "api/sagemaker/service.h"

namespace ty::api::sagemaker {

std::string describe_training_job(Call& call) {
    const auto request = read_request<shapes::DescribeTrainingJobRequest>(call);
    return describe_job(require_job(call, *request.training_job_name), call.services);
}

}  // namespace ty::api::sagemaker
