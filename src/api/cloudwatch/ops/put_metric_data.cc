// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/ops.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace ty::api::cloudwatch {

namespace {

constexpr std::size_t kMostMetrics = 1000;
constexpr std::size_t kMostPoints = 10'000;

using Points = std::vector<std::pair<telemetry::MetricId, telemetry::MetricPoint>>;

void add_values(Points& points, const Params& datum, const telemetry::MetricId& id, Instant time) {
    const auto value = datum.number("Value");
    std::vector<double> values = datum.numbers("Values");
    std::vector<double> counts = datum.numbers("Counts");
    if (datum.has("StatisticValues"))
        throw_error(Code::unsupported, "InvalidParameterValue",
                    "The parameter {} is not supported here; send Value, or Values and Counts.",
                    datum.path_of("StatisticValues"));
    if (value.has_value() != values.empty())
        throw_error(Code::invalid, "InvalidParameterCombination",
                    "Exactly one of the parameters {} and {} must be given.",
                    datum.path_of("Value"), datum.path_of("Values"));
    if (value) values = {*value};
    if (counts.empty()) counts.assign(values.size(), 1);
    if (counts.size() != values.size())
        throw_error(Code::invalid, "InvalidParameterValue",
                    "The parameters {} and {} must have the same number of members.",
                    datum.path_of("Values"), datum.path_of("Counts"));
    for (std::size_t i = 0; i < values.size(); ++i) {
        // Written so that NaN fails too.
        if (!(std::abs(values[i]) <= 0x1p360))
            throw_error(Code::invalid, "InvalidParameterValue",
                        "The value {} for parameter {} is invalid.", values[i],
                        datum.path_of("Value"));
        if (!(counts[i] >= 1 && counts[i] == std::floor(counts[i])) ||
            double(points.size()) + counts[i] > double(kMostPoints))
            throw_error(
                Code::invalid, "InvalidParameterValue",
                "The parameter {} must hold whole numbers, and one request {} values in all.",
                datum.path_of("Counts"), kMostPoints);
        for (auto n = std::size_t(counts[i]); n > 0; --n)
            points.emplace_back(id, telemetry::MetricPoint{.time = time, .value = values[i]});
    }
}

}  // namespace

Json put_metric_data(Call& call, const Params& params) {
    const std::string space = params.required_text("Namespace");
    if (space.starts_with("AWS/"))
        throw_error(Code::invalid, "InvalidParameterValue",
                    "The value AWS/ for parameter Namespace is invalid.");
    const auto data = params.structures("MetricData");
    if (data.empty())
        throw_error(Code::invalid, "MissingParameter", "The parameter MetricData is required.");
    if (data.size() > kMostMetrics)
        throw_error(Code::invalid, "InvalidParameterValue",
                    "The collection MetricData must not have a size greater than {}.",
                    kMostMetrics);
    Points points;
    for (const Params& datum : data)
        add_values(points, datum, metric_of(datum, space),
                   datum.time("Timestamp").value_or(call.services.clock.now()));
    call.services.metrics.put(points);
    return nullptr;
}

}  // namespace ty::api::cloudwatch
