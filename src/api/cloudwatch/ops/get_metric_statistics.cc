// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/ops.h"

#include <nlohmann/json.hpp>

namespace ty::api::cloudwatch {

Json get_metric_statistics(Call& call, const Params& params) {
    const telemetry::MetricId id = metric_of(params, params.required_text("Namespace"));
    const Window window =
        window_of(params.required_time("StartTime"), params.required_time("EndTime"), params);
    const auto percentiles = params.texts("ExtendedStatistics");
    std::vector<Statistic> statistics;
    for (const std::string& name : params.texts("Statistics"))
        statistics.push_back(statistic_of(name, "Statistics"));
    for (const std::string& name : percentiles)
        statistics.push_back(statistic_of(name, "ExtendedStatistics"));
    if (statistics.empty())
        throw_error(Code::invalid, "InvalidParameterCombination",
                    "Must specify either Statistics or ExtendedStatistics");
    Json answer;
    answer["Label"] = id.name;
    Json& points = answer["Datapoints"] = Json::array();
    // Points have no unit; asking for one is asking for others.
    if (params.text("Unit").value_or("None") != "None") return answer;
    for (const telemetry::Datapoint& point :
         call.services.metrics.query(id, window.start, window.end, window.period)) {
        Json out;
        out["Timestamp"] = to_epoch_seconds(point.start);
        for (const Statistic statistic : statistics)
            out[std::string(name_of(statistic))] = value_of(point, statistic);
        out["Unit"] = "None";
        points.push_back(std::move(out));
    }
    return answer;
}

}  // namespace ty::api::cloudwatch
