// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/service.h"

#include <nlohmann/json.hpp>

namespace ty::api::sagemaker {

std::string add_tags(Call& call) {
    const auto request = read_request<shapes::AddTagsInput>(call);
    const jobs::Job job = require_job_of_arn(call, *request.resource_arn);
    call.services.jobs.add_tags(job.spec.arn, checked_tags(*request.tags));
    shapes::AddTagsOutput response;
    response.tags.emplace();
    for (const jobs::Tag& tag : call.services.jobs.list_tags(job.spec.arn))
        response.tags->push_back({tag.key, tag.value});
    return dump_json(shape::write(response));
}

}  // namespace ty::api::sagemaker
