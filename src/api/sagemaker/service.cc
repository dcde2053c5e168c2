// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/service.h"

#include "api/render.h"
#include "api/sagemaker/fields.h"
#include "base/log.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace ty::api {

namespace sagemaker {

namespace {

/// A name the service has but we do not serve, or one nobody knows.
[[noreturn]] void refuse_operation(const std::string& operation) {
    const auto known = shapes::operation_names();
    std::vector<std::string> served;
    for (const Row& row : rows()) served.emplace_back(row.operation);
    if (std::ranges::binary_search(known, std::string_view(operation)))
        throw_error(
            Code::unsupported, "ValidationException",
            "{} is an operation of SageMaker that Trainyard does not support; it supports {}",
            operation, join(served, ", "));
    throw_error(Code::invalid, "UnknownOperationException",
                "{} is not an operation of SageMaker; the nearest is {}", operation,
                join(nearest(operation, served, 1), ", "));
}

}  // namespace

Json parse_body(const Call& call) {
    if (call.body.empty()) return Json::object();
    try {
        return parse_json(call.body);
    } catch (const Error& error) {
        throw Error(Code::invalid, "SerializationException",
                    "the request body is " + error.message());
    }
}

void read_request_into(const Call& call, const shape::Type& type, void* request) {
    const Json body = parse_body(call);
    std::vector<std::string> unknown;
    shape::read_into(body, type, request, &unknown);
    shape::require_none(shape::check_object(type, request));
    refuse_unsupported(call.operation, body);
    if (!unknown.empty())
        log::debug("request members nobody knows were ignored",
                   {{"operation", call.operation}, {"members", join(unknown, " ")}});
}

void throw_no_resource() {
    throw Error(Code::invalid, "ValidationException", "Requested resource not found.");
}

jobs::Job require_job(const Call& call, const std::string& name) {
    auto job = call.services.jobs.find(call.caller.region, name);
    if (!job) throw_no_resource();
    return std::move(*job);
}

jobs::Job require_job_of_arn(const Call& call, const std::string& arn) {
    // arn:aws:sagemaker:<region>:<account>:training-job/<lower-cased name>
    const auto parts = split(arn, ':');
    constexpr std::string_view kKind = "training-job/";
    if (parts.size() != 6 || !parts[5].starts_with(kKind))
        throw_error(Code::invalid, "ValidationException",
                    "Tags are kept for training jobs only; {} is not the ARN of one", arn);
    auto job = call.services.jobs.find(parts[3], parts[5].substr(kKind.size()));
    if (!job || !equals_ignoring_case(job->spec.arn, arn)) throw_no_resource();
    return std::move(*job);
}

std::vector<jobs::Tag> checked_tags(const std::vector<shapes::Tag>& tags) {
    std::vector<jobs::Tag> checked;
    std::set<std::string, std::less<>> keys;
    for (const shapes::Tag& tag : tags) {
        if (to_lower(tag.key->substr(0, 4)) == "aws:")
            throw_error(Code::invalid, "ValidationException",
                        "aws: prefixed tag key names are not allowed for external use: {}",
                        *tag.key);
        if (!keys.insert(*tag.key).second)
            throw_error(Code::invalid, "ValidationException",
                        "Duplicate tag keys are not allowed: {}", *tag.key);
        checked.push_back({*tag.key, *tag.value});
    }
    return checked;
}

}  // namespace sagemaker

http::Response serve_sagemaker(Call& call) {
    try {
        const auto all = sagemaker::rows();
        const auto row = std::ranges::lower_bound(all, std::string_view(call.operation), {},
                                                  &sagemaker::Row::operation);
        if (row == all.end() || row->operation != call.operation)
            sagemaker::refuse_operation(call.operation);
        return json_reply(Protocol::json_1_1, row->handler(call));
    } catch (const Error& error) {
        return render_error(Protocol::json_1_1, "sagemaker", error,
                            {.request_id = call.caller.request_id, .path = call.request.path});
    }
}

}  // namespace ty::api
