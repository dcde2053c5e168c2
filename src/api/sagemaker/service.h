// SPDX-License-Identifier: Apache-2.0
// What the operations of SageMaker share: their signature, the way a request is read, the errors
// that several give. One file per operation under ops/; the table is in registry.cc.
#pragma once

#include "api/api.h"
#include "base/shape.h"
#include "shapes/shapes.h"

#include <span>
#include <string>
#include <string_view>

namespace ty::api::sagemaker {

/// Serves one call and returns the JSON body of the answer; empty for operations without output.
using Handler = std::string (*)(Call& call);

struct Row {
    std::string_view operation;  ///< "CreateTrainingJob"
    Handler handler;
    std::string_view note;  ///< for the compatibility page: what is different here
};
/// Every operation served, sorted by name.
std::span<const Row> rows();

// One function per file in ops/.
std::string add_tags(Call& call);
std::string create_training_job(Call& call);
std::string delete_tags(Call& call);
std::string delete_training_job(Call& call);
std::string describe_training_job(Call& call);
std::string list_tags(Call& call);
std::string list_training_jobs(Call& call);
std::string search(Call& call);
std::string stop_training_job(Call& call);
std::string update_training_job(Call& call);

/// The body as JSON; an empty body is an empty object. Throws invalid ("SerializationException").
Json parse_body(const Call& call);

/// Fill and check a request structure, then refuse the fields of `operation` that are not offered
/// (fields.h). Throws invalid: "SerializationException" or "ValidationException" with everything
/// wrong.
template <shape::Structure T>
T read_request(const Call& call);
void read_request_into(const Call& call, const shape::Type& type, void* request);

template <shape::Structure T>
T read_request(const Call& call) {
    T request;
    read_request_into(call, T::kShape, &request);
    return request;
}

/// The job, or invalid ("ValidationException") "Requested resource not found." as the service has
/// it.
jobs::Job require_job(const Call& call, const std::string& name);
[[noreturn]] void throw_no_resource();

/// The training job behind an ARN of this region's or another's. Throws invalid for other
/// resources.
jobs::Job require_job_of_arn(const Call& call, const std::string& arn);

/// Refuses keys of the reserved "aws:" prefix and keys given twice.
std::vector<jobs::Tag> checked_tags(const std::vector<shapes::Tag>& tags);

}  // namespace ty::api::sagemaker
