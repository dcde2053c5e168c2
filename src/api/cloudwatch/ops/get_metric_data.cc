// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/ops.h"
#include "base/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ty::api::cloudwatch {

namespace {

constexpr std::size_t kMostQueries = 500;
constexpr std::size_t kMostPoints = 500'000;

bool is_id(const std::string& text) {
    return text[0] >= 'a' && text[0] <= 'z' && std::ranges::all_of(text, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_';
           });
}

struct Query {
    std::string id, label;
    telemetry::MetricId metric;
    Window window;
    Statistic statistic = Statistic::average;
    bool is_returned = true, has_unit = false;
};

Query read_query(const Params& params, Instant start, Instant end) {
    Query query;
    query.id = params.required_text("Id");
    if (!is_id(query.id))
        throw_error(
            Code::invalid, "InvalidParameterValue",
            "The value {} for parameter {} is invalid: it must start with a lower-case letter "
            "and hold letters, digits and underscores only.",
            query.id, params.path_of("Id"));
    if (const auto expression = params.text("Expression"))
        throw_error(
            Code::unsupported, "InvalidParameterValue",
            "The query {} has the expression {}: metric math and SQL are not supported here; "
            "ask for the metrics with MetricStat and compute from the answer.",
            query.id, truncate_utf8(*expression, 200));
    const auto stat = params.structure("MetricStat");
    if (!stat)
        throw_error(Code::invalid, "MissingParameter", "The parameter {} is required.",
                    params.path_of("MetricStat"));
    const auto metric = stat->structure("Metric");
    if (!metric)
        throw_error(Code::invalid, "MissingParameter", "The parameter {} is required.",
                    stat->path_of("Metric"));
    query.metric = metric_of(*metric, metric->required_text("Namespace"));
    query.window = window_of(start, end, *stat);
    query.statistic = statistic_of(stat->required_text("Stat"), stat->path_of("Stat"));
    query.has_unit = stat->text("Unit").value_or("None") != "None";
    query.label = params.text("Label").value_or(query.metric.name);
    query.is_returned = params.flag("ReturnData").value_or(true);
    return query;
}

}  // namespace

Json get_metric_data(Call& call, const Params& params) {
    const Instant start = params.required_time("StartTime"), end = params.required_time("EndTime");
    const auto list = params.structures("MetricDataQueries");
    if (list.empty())
        throw_error(Code::invalid, "MissingParameter",
                    "The parameter MetricDataQueries is required.");
    if (list.size() > kMostQueries)
        throw_error(Code::invalid, "InvalidParameterValue",
                    "The collection MetricDataQueries must not have a size greater than {}.",
                    kMostQueries);
    if (params.has("NextToken"))
        throw_error(Code::invalid, "InvalidNextToken",
                    "The token is not one of ours: every answer here is complete.");
    const std::string order = params.text("ScanBy").value_or("TimestampDescending");
    if (order != "TimestampDescending" && order != "TimestampAscending")
        throw_error(Code::invalid, "InvalidParameterValue",
                    "The parameter ScanBy must be a value in the set [ TimestampDescending, "
                    "TimestampAscending ]");
    std::vector<Query> queries;
    std::set<std::string> ids;
    for (const Params& item : list) {
        queries.push_back(read_query(item, start, end));
        if (!ids.insert(queries.back().id).second)
            throw_error(Code::invalid, "InvalidParameterValue",
                        "The Id {} in the parameter MetricDataQueries is not unique.",
                        queries.back().id);
    }
    Json answer;
    Json& results = answer["MetricDataResults"] = Json::array();
    std::size_t total = 0;
    for (const Query& query : queries) {
        if (!query.is_returned) continue;
        std::vector<telemetry::Datapoint> points;
        if (!query.has_unit)
            points = call.services.metrics.query(query.metric, query.window.start, query.window.end,
                                                 query.window.period);
        total += points.size();
        if (total > kMostPoints)
            throw_error(
                Code::invalid, "InvalidParameterCombination",
                "The queries have more than {} datapoints; increase Period, or ask for less "
                "at a time.",
                kMostPoints);
        if (order == "TimestampDescending") std::ranges::reverse(points);
        Json times = Json::array(), values = Json::array();
        for (const telemetry::Datapoint& point : points) {
            times.push_back(to_epoch_seconds(point.start));
            values.push_back(value_of(point, query.statistic));
        }
        results.push_back({{"Id", query.id},
                           {"Label", query.label},
                           {"Timestamps", std::move(times)},
                           {"Values", std::move(values)},
                           {"StatusCode", "Complete"}});
    }
    answer["Messages"] = Json::array();
    return answer;
}

}  // namespace ty::api::cloudwatch
