// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/service.h"

namespace ty::api::sagemaker {

std::string delete_tags(Call& call) {
    const auto request = read_request<shapes::DeleteTagsInput>(call);
    const jobs::Job job = require_job_of_arn(call, *request.resource_arn);
    call.services.jobs.delete_tags(job.spec.arn, *request.tag_keys);
    return "{}";
}

}  // namespace ty::api::sagemaker
