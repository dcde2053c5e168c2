// SPDX-License-Identifier: Apache-2.0
#include "api/logs/input.h"

#include "base/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ty::api::logs {

namespace {

constexpr std::size_t kLongestName = 512;
constexpr std::size_t kMostEvents = 10'000;

bool is_group_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-/.#").find(c) != std::string_view::npos;
}

[[noreturn]] void throw_type(std::string_view member, std::string_view wanted) {
    throw_error(Code::invalid, "SerializationException", "{} must be {}", member, wanted);
}

std::string shown(const Json* value) {
    if (value == nullptr || value->is_null()) return "null";
    const std::string text = value->is_string() ? value->get<std::string>() : dump_json(*value);
    return "'" + std::string(truncate_utf8(text, 200)) + "'";
}

}  // namespace

Input::Input(const Call& call)
    : body_(std::make_unique<Json>(call.body.empty() ? Json::object() : parse_json(call.body))) {
    if (!body_->is_object()) throw_type("the request body", "a JSON object");
}

Input::~Input() = default;

const Json* Input::find(std::string_view member) const {
    const auto found = body_->find(std::string(member));
    return found == body_->end() || found->is_null() ? nullptr : &*found;
}

void Input::violation_of(std::string_view path, std::string_view value,
                         const std::string& constraint) {
    violations_.push_back(format("{} at '{}' failed to satisfy constraint: {}",
                                 value == "null" ? "Value null" : format("Value {}", value), path,
                                 constraint));
}

void Input::violation(std::string_view member, const Json* value, const std::string& constraint) {
    violation_of(member, shown(value), constraint);
}

std::optional<std::string> Input::text(std::string_view member, Need need, std::size_t longest) {
    const Json* value = find(member);
    if (value == nullptr) {
        if (need == Need::required) violation(member, nullptr, "Member must not be null");
        return std::nullopt;
    }
    if (!value->is_string()) throw_type(member, "a string");
    const auto text = value->get<std::string>();
    if (text.empty())
        violation(member, value, "Member must have length greater than or equal to 1");
    if (count_code_points(text) > longest)
        violation(member, value,
                  format("Member must have length less than or equal to {}", longest));
    return text;
}

void Input::check_name(std::string_view path, const std::string& value, bool is_group) {
    const bool fits = is_group ? std::ranges::all_of(value, is_group_character)
                               : value.find_first_of(":*") == std::string::npos;
    const std::string_view pattern = is_group ? "[\\.\\-_/#A-Za-z0-9]+" : "[^:*]*";
    if (!fits)
        violation_of(path, "'" + std::string(truncate_utf8(value, 200)) + "'",
                     format("Member must satisfy regular expression pattern: {}", pattern));
}

std::optional<std::string> Input::group_name(std::string_view member, Need need) {
    auto name = text(member, need, kLongestName);
    if (name) check_name(member, *name, true);
    return name;
}

std::optional<std::string> Input::stream_name(std::string_view member, Need need) {
    auto name = text(member, need, kLongestName);
    if (name) check_name(member, *name, false);
    return name;
}

std::string Input::group() {
    const Json* identifier = find("logGroupIdentifier");
    if (identifier == nullptr) return group_name("logGroupName", Need::required).value_or("");
    if (find("logGroupName") != nullptr)
        throw_error(Code::invalid, "InvalidParameterException",
                    "Only one of logGroupName and logGroupIdentifier may be given");
    std::string name = text("logGroupIdentifier", Need::required, 2048).value_or("");
    if (name.starts_with("arn:")) {
        constexpr std::string_view kMark = ":log-group:";
        const auto at = name.find(kMark);
        if (at == std::string::npos)
            violation("logGroupIdentifier", identifier,
                      "Member must be a log group name or its ARN");
        else
            name = name.substr(at + kMark.size());
        if (name.ends_with(":*")) name.resize(name.size() - 2);
    }
    check_name("logGroupIdentifier", name, true);
    return name;
}

std::optional<long long> Input::number(std::string_view member, long long lowest,
                                       long long highest) {
    const Json* value = find(member);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) throw_type(member, "a number");
    // Integers beyond 64 bits and fractions arrive as floating point.
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t(INT64_MAX)))
        throw_type(member, "an integer");
    const auto number = value->get<long long>();
    if (number < lowest)
        violation(member, value,
                  format("Member must have value greater than or equal to {}", lowest));
    if (number > highest)
        violation(member, value,
                  format("Member must have value less than or equal to {}", highest));
    return number;
}

std::optional<Instant> Input::time(std::string_view member) {
    // The largest time whose arithmetic cannot overflow; about the year 100,000,000.
    constexpr long long kLatest = 1LL << 51;
    const auto millis = number(member, 0, kLatest);
    if (!millis) return std::nullopt;
    return from_epoch_millis(std::clamp(*millis, 0LL, kLatest));
}

bool Input::flag(std::string_view member) {
    const Json* value = find(member);
    if (value == nullptr) return false;
    if (!value->is_boolean()) throw_type(member, "true or false");
    return value->get<bool>();
}

std::string Input::filter_pattern() {
    const Json* value = find("filterPattern");
    if (value == nullptr) return {};
    if (!value->is_string()) throw_type("filterPattern", "a string");
    auto text = value->get<std::string>();
    if (count_code_points(text) > 1024)
        violation("filterPattern", value, "Member must have length less than or equal to 1024");
    return text;
}

std::vector<std::string> Input::stream_names(std::string_view member) {
    const Json* value = find(member);
    if (value == nullptr) return {};
    if (!value->is_array()) throw_type(member, "a list");
    if (value->empty() || value->size() > 100)
        violation(member, value,
                  value->empty() ? "Member must have length greater than or equal to 1"
                                 : "Member must have length less than or equal to 100");
    std::vector<std::string> names;
    for (const Json& item : *value) {
        if (!item.is_string()) throw_type(member, "a list of strings");
        names.push_back(item.get<std::string>());
        check_name(format("{}.{}.member", member, names.size()), names.back(), false);
    }
    return names;
}

std::string Input::choice(std::string_view member, std::vector<std::string> values,
                          std::string_view otherwise) {
    const Json* value = find(member);
    if (value == nullptr) return std::string(otherwise);
    if (!value->is_string()) throw_type(member, "a string");
    auto text = value->get<std::string>();
    if (std::ranges::find(values, text) == values.end())
        violation(member, value,
                  format("Member must satisfy enum value set: [{}]", join(values, ", ")));
    return text;
}

std::vector<Input::Event> Input::events(std::string_view member) {
    const Json* list = find(member);
    if (list == nullptr) {
        violation(member, nullptr, "Member must not be null");
        return {};
    }
    if (!list->is_array()) throw_type(member, "a list");
    if (list->empty())
        violation_of(member, "'[]'", "Member must have length greater than or equal to 1");
    if (list->size() > kMostEvents)
        violation_of(member, format("'[{} events]'", list->size()),
                     format("Member must have length less than or equal to {}", kMostEvents));
    std::vector<Event> events;
    for (const Json& item : *list) {
        const std::string path = format("{}.{}.member", member, events.size() + 1);
        if (!item.is_object()) throw_type(path, "an object");
        const auto time = item.find("timestamp");
        const auto message = item.find("message");
        Event event;
        if (time == item.end() || time->is_null())
            violation_of(path + ".timestamp", "null", "Member must not be null");
        else if (!time->is_number_integer())
            throw_type(path + ".timestamp", "an integer, milliseconds since 1970");
        else if (const auto millis = time->get<long long>(); millis < 0 || millis > 1LL << 51)
            violation(path + ".timestamp", &*time,
                      "Member must have value greater than or equal to 0");
        else
            event.time = from_epoch_millis(millis);
        if (message == item.end() || message->is_null())
            violation_of(path + ".message", "null", "Member must not be null");
        else if (!message->is_string())
            throw_type(path + ".message", "a string");
        else if (event.message = message->get<std::string>(); event.message.empty())
            violation_of(path + ".message", "''",
                         "Member must have length greater than or equal to 1");
        events.push_back(std::move(event));
        if (violations_.size() > 10) break;
    }
    return events;
}

void Input::done() const {
    if (violations_.empty()) return;
    throw_error(Code::invalid, "InvalidParameterException", "{} validation error{} detected: {}",
                violations_.size(), violations_.size() == 1 ? "" : "s", join(violations_, "; "));
}

void require_group(const Call& call, const std::string& group) {
    if (!call.services.logs.group_created(group))
        throw_error(Code::not_found, "ResourceNotFoundException",
                    "The specified log group does not exist.");
}

std::string group_arn(const Call& call, std::string_view group) {
    return format("arn:{}:logs:{}:{}:log-group:{}", aws::partition_of(call.caller.region),
                  call.caller.region, call.services.settings.account, group);
}

}  // namespace ty::api::logs
