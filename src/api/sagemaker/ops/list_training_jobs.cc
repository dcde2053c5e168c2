// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/service.h"

#include <nlohmann/json.hpp>

namespace ty::api::sagemaker {

namespace {

constexpr std::int64_t kDefaultPage = 10;

jobs::ListQuery query_of(const shapes::ListTrainingJobsRequest& request,
                         const std::string& region) {
    using SortBy = jobs::ListQuery::SortBy;
    using Order = jobs::ListQuery::Order;
    jobs::ListQuery query;
    query.region = region;
    query.created_after = request.creation_time_after;
    query.created_before = request.creation_time_before;
    query.modified_after = request.last_modified_time_after;
    query.modified_before = request.last_modified_time_before;
    query.name_contains = request.name_contains.value_or("");
    if (request.status_equals) query.status = jobs::parse_status(*request.status_equals);
    const std::string sort = request.sort_by.value_or("CreationTime");
    query.sort_by = sort == "Name"     ? SortBy::name
                    : sort == "Status" ? SortBy::status
                                       : SortBy::created;
    // Listings of AWS come newest first unless asked otherwise; names and states start at A.
    const std::string order =
        request.sort_order.value_or(query.sort_by == SortBy::created ? "Descending" : "Ascending");
    query.order = order == "Ascending" ? Order::ascending : Order::descending;
    query.limit = static_cast<std::size_t>(request.max_results.value_or(kDefaultPage));
    query.token = request.next_token.value_or("");
    return query;
}

shapes::TrainingJobSummary summary_of(const jobs::Summary& row) {
    shapes::TrainingJobSummary summary;
    summary.training_job_name = row.name;
    summary.training_job_arn = row.arn;
    summary.creation_time = row.created;
    summary.training_end_time = row.ended;
    summary.last_modified_time = row.modified;
    summary.training_job_status = jobs::to_string(row.status);
    summary.secondary_status = jobs::to_string(row.secondary);
    return summary;
}

}  // namespace

std::string list_training_jobs(Call& call) {
    const auto request = read_request<shapes::ListTrainingJobsRequest>(call);
    shapes::ListTrainingJobsResponse response;
    response.training_job_summaries.emplace();
    // There are neither warm pools nor training plans: no job has one of any state.
    if (!request.warm_pool_status_equals && !request.training_plan_arn_equals) {
        const jobs::Page page = call.services.jobs.list(query_of(request, call.caller.region));
        for (const jobs::Summary& row : page.rows)
            response.training_job_summaries->push_back(summary_of(row));
        if (!page.next.empty()) response.next_token = page.next;
    }
    return dump_json(shape::write(response));
}

}  // namespace ty::api::sagemaker
