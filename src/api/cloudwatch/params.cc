// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/params.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ty::api::cloudwatch {

namespace {

constexpr double kLatest = 1e13;  // seconds; keeps milliseconds within 64 bits
constexpr std::size_t kMostDimensions = 30;
/// One answer's data points; AWS stops at 1,440, which a long job's table would not fit into.
constexpr long long kMostPoints = 100'800;

[[noreturn]] void bad_value(std::string text) {
    throw Error(Code::invalid, "InvalidParameterValue", std::move(text));
}

}  // namespace

Params::Params(Json document, Dialect dialect, std::string path)
    : document_(std::make_unique<Json>(std::move(document))),
      dialect_(dialect),
      path_(std::move(path)) {
    if (!document_->is_object())
        throw_error(Code::invalid, "SerializationException", "{} must be a structure",
                    path_.empty() ? "the request" : path_);
}

Params::~Params() = default;
Params::Params(Params&&) noexcept = default;

std::string Params::path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : format("{}.{}", path_, name);
}

void Params::missing(std::string_view name) const {
    throw_error(Code::invalid, "MissingParameter", "The parameter {} is required.", path_of(name));
}

void Params::bad_type(std::string_view name, std::string_view wanted) const {
    if (dialect_ == Dialect::query)
        throw_error(Code::invalid, "InvalidParameterValue", "The parameter {} must be {}.",
                    path_of(name), wanted);
    throw_error(Code::invalid, "SerializationException", "{} must be {}", path_of(name), wanted);
}

const Json* Params::find(std::string_view name) const {
    const auto found = document_->find(std::string(name));
    return found == document_->end() || found->is_null() ? nullptr : &*found;
}

bool Params::has(std::string_view name) const {
    return find(name) != nullptr;
}

std::optional<std::string> Params::text(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) bad_type(name, "a string");
    return value->get<std::string>();
}

std::string Params::required_text(std::string_view name) const {
    auto value = text(name);
    if (!value || value->empty()) missing(name);
    if (value->size() > 255)
        bad_value(format("The parameter {} must be shorter than 256 characters.", path_of(name)));
    return std::move(*value);
}

double Params::number_of(const Json& value, std::string_view name) const {
    if (value.is_number()) return value.get<double>();
    const auto parsed = dialect_ == Dialect::query && value.is_string()
                            ? parse_double(value.get_ref<const std::string&>())
                            : std::nullopt;
    if (!parsed) bad_type(name, "a number");
    return *parsed;
}

std::optional<double> Params::number(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    return number_of(*value, name);
}

std::optional<long long> Params::integer(std::string_view name) const {
    const auto value = number(name);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value) || std::abs(*value) > 1e15) bad_type(name, "an integer");
    return static_cast<long long>(*value);
}

std::optional<bool> Params::flag(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    if (dialect_ == Dialect::query && value->is_string()) {
        const std::string text = to_lower(value->get_ref<const std::string&>());
        if (text == "true" || text == "false") return text == "true";
    }
    bad_type(name, "true or false");
}

std::optional<Instant> Params::time(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) {  // also in JSON: some clients write times as text
        const auto instant = parse_iso8601(value->get_ref<const std::string&>());
        if (instant) return instant;
        if (dialect_ != Dialect::query) bad_type(name, "a time");
    }
    const double epoch = number_of(*value, name);
    if (!(std::abs(epoch) <= kLatest)) bad_type(name, "a time");
    return from_epoch_seconds(epoch);
}

long long Params::required_integer(std::string_view name) const {
    const auto value = integer(name);
    if (!value) missing(name);
    return *value;
}

Instant Params::required_time(std::string_view name) const {
    const auto value = time(name);
    if (!value) missing(name);
    return *value;
}

const Json* Params::find_list(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return nullptr;
    // A form says nothing about an empty list but "Dimensions=".
    if (dialect_ == Dialect::query && value->is_string() &&
        value->get_ref<const std::string&>().empty())
        return nullptr;
    if (!value->is_array()) bad_type(name, "a list");
    return value;
}

std::vector<std::string> Params::texts(std::string_view name) const {
    std::vector<std::string> out;
    if (const Json* list = find_list(name))
        for (const Json& element : *list) {
            if (!element.is_string()) bad_type(name, "a list of strings");
            out.push_back(element.get<std::string>());
        }
    return out;
}

std::vector<double> Params::numbers(std::string_view name) const {
    std::vector<double> out;
    if (const Json* list = find_list(name))
        for (const Json& element : *list) out.push_back(number_of(element, name));
    return out;
}

std::vector<Params> Params::structures(std::string_view name) const {
    std::vector<Params> out;
    if (const Json* list = find_list(name))
        for (const Json& element : *list)
            out.emplace_back(element, dialect_,
                             format("{}.member.{}", path_of(name), out.size() + 1));
    return out;
}

std::optional<Params> Params::structure(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    return Params(*value, dialect_, path_of(name));
}

// ---- what several operations read
// ----------------------------------------------------------------

std::vector<std::pair<std::string, std::string>> dimensions_of(const Params& params) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Params& dimension : params.structures("Dimensions"))
        out.emplace_back(dimension.required_text("Name"), dimension.required_text("Value"));
    if (out.size() > kMostDimensions)
        bad_value(format("The collection {} must not have a size greater than {}.",
                         params.path_of("Dimensions"), kMostDimensions));
    std::ranges::sort(out);
    for (std::size_t i = 1; i < out.size(); ++i)
        if (out[i].first == out[i - 1].first)
            bad_value(format("The dimension {} is given twice.", out[i].first));
    return out;
}

telemetry::MetricId metric_of(const Params& params, std::string space) {
    return {.space = std::move(space),
            .name = params.required_text("MetricName"),
            .dimensions = dimensions_of(params)};
}

Window window_of(Instant start, Instant end, const Params& period_holder) {
    const long long period = period_holder.required_integer("Period");
    constexpr std::array<long long, 4> kShort{1, 5, 10, 30};
    const bool fits = period > 0 && period <= 86'400 * 365 &&
                      (period % 60 == 0 || std::ranges::find(kShort, period) != kShort.end());
    if (!fits)
        bad_value(format("The parameter {} must be 1, 5, 10, 30 or a multiple of 60; it is {}.",
                         period_holder.path_of("Period"), period));
    if (start >= end) bad_value("The parameter StartTime must be less than the parameter EndTime.");
    const auto floor = [](Instant instant, milliseconds step) {
        const auto since = instant.time_since_epoch();
        const auto rest = (since % step + step) % step;
        return Instant(since - rest);
    };
    const seconds step(period >= 60 ? 60 : period);
    const Window window{floor(start, step), end, seconds(period)};
    const long long points = (window.end - window.start) / milliseconds(window.period);
    if (points > kMostPoints)
        throw_error(
            Code::invalid, "InvalidParameterCombination",
            "You have requested up to {} datapoints, which exceeds the limit of {}. You may "
            "reduce the datapoints requested by increasing Period, or decreasing the time "
            "range.",
            points, kMostPoints);
    return window;
}

namespace {

constexpr std::array<std::pair<std::string_view, Statistic>, 5> kStatistics{{
    {"Average", Statistic::average},
    {"Sum", Statistic::sum},
    {"Minimum", Statistic::minimum},
    {"Maximum", Statistic::maximum},
    {"SampleCount", Statistic::sample_count},
}};

}  // namespace

Statistic statistic_of(const std::string& name, std::string_view parameter) {
    for (const auto& [text, statistic] : kStatistics)
        if (text == name) return statistic;
    bad_value(
        format("The value {} for parameter {} is invalid: it must be one of SampleCount, "
               "Average, Sum, Minimum, Maximum; percentiles are not kept here.",
               truncate_utf8(name, 100), parameter));
}

std::string_view name_of(Statistic statistic) {
    for (const auto& [text, value] : kStatistics)
        if (value == statistic) return text;
    return {};
}

double value_of(const telemetry::Datapoint& point, Statistic statistic) {
    switch (statistic) {
        case Statistic::average:
            return point.sum / double(point.count);
        case Statistic::sum:
            return point.sum;
        case Statistic::minimum:
            return point.minimum;
        case Statistic::maximum:
            return point.maximum;
        case Statistic::sample_count:
            return double(point.count);
    }
    return 0;
}

// ---- forms
// -------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kMostMembers = 1000;
constexpr std::size_t kDeepest = 12;

[[noreturn]] void bad_form(const std::string& name) {
    throw_error(Code::invalid, "InvalidParameterValue", "The parameter {} is not valid.",
                truncate_utf8(to_valid_utf8(name), 200));
}

/// The name with its numbers padded, so that text order is number order.
std::string sort_key(const std::string& name) {
    std::string key;
    for (const std::string& part : split(name, '.')) {
        if (part.size() < 8 && !part.empty() && parse_int(part)) key.append(8 - part.size(), '0');
        key += part;
        key += '.';
    }
    return key;
}

/// Where "A.member.2.B" belongs; makes what is missing on the way.
Json& place_of(Json& root, const std::string& name) {
    const std::vector<std::string> parts = split(name, '.');
    if (parts.size() > kDeepest) bad_form(name);
    Json* at = &root;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == "member" && i > 0) {
            const auto number = ++i < parts.size() ? parse_int(parts[i]) : std::nullopt;
            if (at->is_null()) *at = Json::array();
            // Members come in order; one beyond the next would leave a hole.
            if (!number || *number < 1 || !at->is_array() ||
                std::size_t(*number) > std::min(at->size() + 1, kMostMembers))
                bad_form(name);
            if (std::size_t(*number) == at->size() + 1) at->push_back(nullptr);
            at = &(*at)[std::size_t(*number) - 1];
            continue;
        }
        if (at->is_null()) *at = Json::object();
        if (!at->is_object()) bad_form(name);
        at = &(*at)[parts[i]];
    }
    return *at;
}

}  // namespace

Json document_of_form(std::string_view form) {
    Json document = Json::object();
    auto fields = parse_query(form);
    // "member.10" may be written before "member.2": in order of numbers, lists grow one by one.
    std::ranges::stable_sort(fields, {}, [](const auto& field) { return sort_key(field.first); });
    for (auto& [name, value] : fields) {
        Json& place = place_of(document, name);
        if (!place.is_null()) bad_form(name);
        place = to_valid_utf8(value);
    }
    return document;
}

}  // namespace ty::api::cloudwatch
