// SPDX-License-Identifier: Apache-2.0
// CloudWatch Logs over the log store: what the SDKs, boto3 and the AWS CLI read logs with.
#include "api/logs/ops.h"
#include "api/table.h"

#include <array>

namespace ty::api {

namespace {

constexpr std::array kRows{
    JsonRow{"CreateLogGroup", logs::create_log_group, "partial",
            "Tags, KMS keys and classes are accepted and ignored."},
    JsonRow{"CreateLogStream", logs::create_log_stream, "full", ""},
    JsonRow{
        "PutLogEvents", logs::put_log_events, "partial",
        "Times within a stream never go back: an earlier one becomes that of the event before; a "
        "job's own streams cannot be written to."},
    JsonRow{"DescribeLogGroups", logs::describe_log_groups, "full", ""},
    JsonRow{"DescribeLogStreams", logs::describe_log_streams, "full",
            "A prefix with at most 50 streams is answered whole, whatever the limit."},
    JsonRow{"GetLogEvents", logs::get_log_events, "full", ""},
    JsonRow{"FilterLogEvents", logs::filter_log_events, "partial",
            "Patterns on JSON members, columns and regular expressions are refused."},
    JsonRow{"ListTagsLogGroup", logs::list_tags_log_group, "accepted", "Log groups have no tags."},
};
constexpr std::array<std::string_view, 12> kRefused{
    "DeleteLogGroup",  "DeleteLogStream", "DescribeMetricFilters", "GetLogRecord",
    "GetQueryResults", "PutMetricFilter", "PutRetentionPolicy",    "PutSubscriptionFilter",
    "StartLiveTail",   "StartQuery",      "TagLogGroup",           "UntagLogGroup"};

}  // namespace

http::Response serve_logs(Call& call) {
    return serve_json_table(call, "logs", kRows);
}

std::vector<OperationCoverage> logs_coverage() {
    auto out = coverage_of("logs", std::span<const JsonRow>(kRows));
    for (const std::string_view name : kRefused)
        out.push_back({"logs", std::string(name), "refused",
                       "UnsupportedOperationException, naming the operation."});
    return out;
}

}  // namespace ty::api
