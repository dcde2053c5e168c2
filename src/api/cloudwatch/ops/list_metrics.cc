// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/ops.h"
#include "base/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ty::api::cloudwatch {

namespace {

constexpr std::size_t kPage = 500;

struct DimensionFilter {
    std::string name;
    std::optional<std::string> value;
};

bool matches(const telemetry::MetricId& id, const std::vector<DimensionFilter>& filters) {
    return std::ranges::all_of(filters, [&](const DimensionFilter& filter) {
        return std::ranges::any_of(id.dimensions, [&](const auto& dimension) {
            return dimension.first == filter.name &&
                   (!filter.value || dimension.second == *filter.value);
        });
    });
}

std::int64_t read_token(const std::optional<std::string>& token) {
    if (!token) return 0;
    const auto text = from_base64(*token);
    const auto key = text && text->starts_with("m:") ? parse_int(text->substr(2)) : std::nullopt;
    if (!key || *key < 0)
        throw_error(Code::invalid, "InvalidNextToken", "The parameter NextToken is invalid.");
    return *key;
}

}  // namespace

Json list_metrics(Call& call, const Params& params) {
    const std::string space = params.text("Namespace").value_or("");
    const std::string name = params.text("MetricName").value_or("");
    std::vector<DimensionFilter> filters;
    for (const Params& filter : params.structures("Dimensions"))
        filters.push_back({filter.required_text("Name"), filter.text("Value")});
    std::int64_t after = read_token(params.text("NextToken"));
    Json answer;
    Json& metrics = answer["Metrics"] = Json::array();
    for (bool more = true; more;) {
        const auto listed = call.services.metrics.list_after(after, kPage, space, name);
        more = listed.size() == kPage;
        for (const telemetry::MetricStore::Listed& entry : listed) {
            if (metrics.size() == kPage) {
                answer["NextToken"] = to_base64(as_bytes(format("m:{}", after)));
                return answer;
            }
            after = entry.key;
            if (!matches(entry.id, filters)) continue;
            Json dimensions = Json::array();
            for (const auto& [key, value] : entry.id.dimensions)
                dimensions.push_back({{"Name", key}, {"Value", value}});
            metrics.push_back({{"Namespace", entry.id.space},
                               {"MetricName", entry.id.name},
                               {"Dimensions", std::move(dimensions)}});
        }
    }
    return answer;
}

}  // namespace ty::api::cloudwatch
