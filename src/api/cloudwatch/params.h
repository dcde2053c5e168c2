// SPDX-License-Identifier: Apache-2.0
// The parameters of a CloudWatch call, the same whatever dialect they came in, and the texts AWS
// has for bad ones. Private to api/cloudwatch/.
#pragma once

#include "api/api.h"
#include "base/json.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::api::cloudwatch {

enum class Dialect { json, query, cbor };

/// The nested document behind "Dimensions.member.1.Name=x&…". Throws invalid for contradictory
/// names.
Json document_of_form(std::string_view form);

/// One structure of a request. Forms know text only, so their numbers and times are read from it.
class Params {
public:
    Params(Json document, Dialect dialect, std::string path = {});
    ~Params();
    Params(Params&&) noexcept;

    bool has(std::string_view name) const;
    std::optional<std::string> text(std::string_view name) const;
    /// Throws invalid ("MissingParameter") when absent or empty.
    std::string required_text(std::string_view name) const;
    std::optional<double> number(std::string_view name) const;
    std::optional<long long> integer(std::string_view name) const;
    std::optional<bool> flag(std::string_view name) const;
    std::optional<Instant> time(std::string_view name) const;
    long long required_integer(std::string_view name) const;
    Instant required_time(std::string_view name) const;
    std::vector<std::string> texts(std::string_view name) const;
    std::vector<double> numbers(std::string_view name) const;
    std::vector<Params> structures(std::string_view name) const;
    std::optional<Params> structure(std::string_view name) const;
    /// "MetricData.member.2.Value"
    std::string path_of(std::string_view name) const;

private:
    const Json* find(std::string_view name) const;
    const Json* find_list(std::string_view name) const;
    double number_of(const Json& value, std::string_view name) const;
    [[noreturn]] void missing(std::string_view name) const;
    [[noreturn]] void bad_type(std::string_view name, std::string_view wanted) const;

    std::unique_ptr<Json> document_;
    Dialect dialect_;
    std::string path_;
};

/// Namespace, MetricName and Dimensions of the structure; all but Dimensions required.
telemetry::MetricId metric_of(const Params& params, std::string space);
std::vector<std::pair<std::string, std::string>> dimensions_of(const Params& params);

/// A time range and period that can be answered; throws invalid with AWS's texts.
struct Window {
    Instant start, end;
    seconds period;
};
Window window_of(Instant start, Instant end, const Params& period_holder);

enum class Statistic { average, sum, minimum, maximum, sample_count };
/// Throws invalid naming the text: not a statistic, or a percentile.
Statistic statistic_of(const std::string& name, std::string_view parameter);
std::string_view name_of(Statistic statistic);
double value_of(const telemetry::Datapoint& point, Statistic statistic);

}  // namespace ty::api::cloudwatch
