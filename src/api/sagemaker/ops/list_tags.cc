// SPDX-License-Identifier: Apache-2.0
// ListTags: a job has at most 50 tags and a page at least 50, so there is never a second one.
#include "api/sagemaker/service.h"

#include <nlohmann/json.hpp>

namespace ty::api::sagemaker {

std::string list_tags(Call& call) {
    const auto request = read_request<shapes::ListTagsInput>(call);
    const jobs::Job job = require_job_of_arn(call, *request.resource_arn);
    shapes::ListTagsOutput response;
    response.tags.emplace();
    for (const jobs::Tag& tag : call.services.jobs.list_tags(job.spec.arn))
        response.tags->push_back({tag.key, tag.value});
    return dump_json(shape::write(response));
}

}  // namespace ty::api::sagemaker
