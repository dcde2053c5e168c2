// SPDX-License-Identifier: Apache-2.0
// Search over training jobs. Every job of the region is looked at, in batches; what satisfies the
// expression is sorted and one page of it returned.
#include "api/sagemaker/document.h"
#include "api/sagemaker/search_filter.h"
#include "api/sagemaker/service.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

constexpr std::size_t kBatch = 256;
constexpr std::size_t kDefaultPage = 10;

std::vector<Json> find_records(const Call& call, const shapes::SearchExpression& expression) {
    const jobs::JobService& service = call.services.jobs;
    std::vector<Json> found;
    for (std::size_t offset = 0;; offset += kBatch) {
        const std::vector<jobs::Job> batch = service.all(call.caller.region, offset, kBatch);
        for (const jobs::Job& job : batch) {
            Json record = search_record(job, service.list_tags(job.spec.arn), call.services);
            if (satisfies(record, expression)) found.push_back(std::move(record));
        }
        if (batch.size() < kBatch || call.request.stop.stop_requested()) return found;
    }
}

/// Tokens are the number of results already given.
std::size_t offset_of(const std::optional<std::string>& token) {
    if (!token || token->empty()) return 0;
    const auto text = from_base64(*token);
    const auto offset = text ? parse_int(*text) : std::nullopt;
    if (!offset || *offset < 0)
        throw_error(Code::invalid, "ValidationException",
                    "The NextToken \"{}\" was not given by Search", truncate_utf8(*token, 100));
    return static_cast<std::size_t>(*offset);
}

}  // namespace

std::string search(Call& call) {
    const auto request = read_request<shapes::SearchRequest>(call);
    const auto expression = request.search_expression.value_or(shapes::SearchExpression{});
    check_expression(expression);
    const std::size_t offset = offset_of(request.next_token);
    const std::size_t limit = static_cast<std::size_t>(request.max_results.value_or(kDefaultPage));

    std::vector<Json> found = find_records(call, expression);
    const std::string property = request.sort_by.value_or("LastModifiedTime");
    const bool ascending = request.sort_order == "Ascending";
    std::ranges::stable_sort(found, [&](const Json& a, const Json& b) {
        return ascending ? comes_before(a, b, property) : comes_before(b, a, property);
    });

    Json response = {{"Results", Json::array()},
                     {"TotalHits", {{"Value", found.size()}, {"Relation", "EqualTo"}}}};
    const std::size_t end =
        offset >= found.size() ? found.size() : std::min(found.size(), offset + limit);
    for (std::size_t i = offset; i < end; ++i) {
        Json result = Json::object();
        result["TrainingJob"] = std::move(found[i]);
        response["Results"].push_back(std::move(result));
    }
    if (end < found.size()) response["NextToken"] = to_base64(as_bytes(std::to_string(end)));
    return dump_json(response);
}

}  // namespace ty::api::sagemaker
