// SPDX-License-Identifier: Apache-2.0
#include "api/control/fields.h"

#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace ty::api::control {

Fields::Fields(const std::string& body, std::span<const std::string_view> known)
    : body_(std::make_unique<Json>(body.empty() ? Json::object() : parse_json(body))) {
    if (!body_->is_object())
        throw_error(Code::invalid, "ValidationException",
                    "the request body must be a JSON object such as {{}}");
    const std::vector<std::string> names(known.begin(), known.end());
    for (const auto& [name, value] : body_->items())
        if (std::ranges::find(known, name) == known.end())
            problems_.push_back({name, names.empty() ? "is not known; this call takes no fields"
                                                     : "is not known; the nearest is " +
                                                           join(nearest(name, names, 1), "")});
}

Fields::~Fields() = default;

bool Fields::has(const char* name) const {
    const auto found = body_->find(name);
    return found != body_->end() && !found->is_null();
}

std::optional<std::string> Fields::text(const char* name) {
    if (!has(name)) return std::nullopt;
    const Json& value = body_->at(name);
    if (value.is_string() && !value.get_ref<const std::string&>().empty())
        return value.get<std::string>();
    problem(name, "must be text in quotes");
    return std::nullopt;
}

std::optional<std::string> Fields::choice(const char* name,
                                          std::span<const std::string_view> choices) {
    const auto value = text(name);
    if (!value || std::ranges::find(choices, *value) != choices.end()) return value;
    const std::vector<std::string> names(choices.begin(), choices.end());
    problem(name, format("\"{}\" is none of {}", to_valid_utf8(*value), join(names, ", ")));
    return std::nullopt;
}

std::optional<std::int64_t> Fields::whole(const char* name, std::int64_t low, std::int64_t high) {
    if (!has(name)) return std::nullopt;
    const Json& value = body_->at(name);
    if (value.is_number_integer()) {
        const bool small = !value.is_number_unsigned() ||
                           value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
        const auto number = small ? value.get<std::int64_t>() : INT64_MAX;
        if (small && number >= low && number <= high) return number;
    }
    problem(name, format("must be a whole number from {} to {}", low, high));
    return std::nullopt;
}

std::optional<milliseconds> Fields::time(const char* name, milliseconds low, milliseconds high) {
    if (!has(name)) return std::nullopt;
    const Json& value = body_->at(name);
    if (value.is_number()) {
        const double millis = value.get<double>() * 1000;
        if (millis >= static_cast<double>(low.count()) &&
            millis <= static_cast<double>(high.count()))
            return milliseconds(std::llround(millis));
    }
    problem(name, format("must be a number of seconds from {} to {}",
                         static_cast<double>(low.count()) / 1000,
                         static_cast<double>(high.count()) / 1000));
    return std::nullopt;
}

void Fields::problem(const char* name, std::string what) {
    problems_.push_back({name, std::move(what)});
}

void Fields::finish() const {
    if (problems_.empty()) return;
    std::vector<std::string> lines;
    for (const Problem& found : problems_)
        lines.push_back(format("{} {}", to_valid_utf8(found.path), found.message));
    throw Error(Code::invalid, "ValidationException", join(lines, "; "), problems_);
}

}  // namespace ty::api::control
