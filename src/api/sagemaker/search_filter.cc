// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/search_filter.h"

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace ty::api::sagemaker {

namespace {

std::string as_text(const Json& value) {
    return value.is_string() ? value.get_ref<const std::string&>() : dump_json(value);
}

/// A stored value as a number: numbers, and text that is one (hyperparameters are text).
std::optional<double> as_number(const Json& value) {
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return parse_double(value.get_ref<const std::string&>());
    return std::nullopt;
}

/// What a filter compares with; times are compared as seconds of the epoch.
std::optional<double> operand_number(const std::string& text) {
    if (const auto number = parse_double(text)) return number;
    if (const auto instant = parse_iso8601(text)) return to_epoch_seconds(*instant);
    // Search accepts times without a zone, meaning UTC.
    if (const auto instant = parse_iso8601(text + "Z")) return to_epoch_seconds(*instant);
    if (const auto instant = parse_iso8601(text + "T00:00:00Z")) return to_epoch_seconds(*instant);
    return std::nullopt;
}

bool equal_values(const Json& value, const std::string& operand) {
    if (as_text(value) == operand) return true;
    if (!value.is_number()) return false;
    const auto number = operand_number(operand);
    return number && *number == value.get<double>();
}

bool contains_text(const Json& value, const std::string& operand) {
    return to_lower(as_text(value)).find(to_lower(operand)) != std::string::npos;
}

template <typename Compare>
bool any_number(const std::vector<const Json*>& values, const std::string& operand,
                Compare compare) {
    const auto wanted = operand_number(operand);
    if (!wanted) return false;
    return std::ranges::any_of(values, [&](const Json* value) {
        const auto number = as_number(*value);
        return number && compare(*number, *wanted);
    });
}

bool compare_values(const std::vector<const Json*>& values, const std::string& op,
                    const std::string& operand) {
    const auto any = [&](const auto& predicate) {
        return std::ranges::any_of(values,
                                   [&](const Json* value) { return predicate(*value, operand); });
    };
    if (op == "Exists") return !values.empty();
    if (op == "NotExists") return values.empty();
    if (op == "Equals") return any(equal_values);
    if (op == "NotEquals") return !any(equal_values);
    if (op == "Contains") return any(contains_text);
    if (op == "GreaterThan") return any_number(values, operand, std::greater<>());
    if (op == "GreaterThanOrEqualTo") return any_number(values, operand, std::greater_equal<>());
    if (op == "LessThan") return any_number(values, operand, std::less<>());
    if (op == "LessThanOrEqualTo") return any_number(values, operand, std::less_equal<>());
    if (op == "In") {
        for (const std::string& choice : split(operand, ',')) {
            const std::string wanted(trim(choice));
            if (std::ranges::any_of(values,
                                    [&](const Json* v) { return equal_values(*v, wanted); }))
                return true;
        }
    }
    return false;
}

bool matches_filter(const Json& record, const shapes::Filter& filter, std::string_view prefix) {
    std::string_view name = *filter.name;
    if (!prefix.empty() && name.starts_with(prefix) && name.size() > prefix.size() &&
        name[prefix.size()] == '.')
        name.remove_prefix(prefix.size() + 1);
    return compare_values(find_property(record, name), filter.operator_.value_or("Equals"),
                          filter.value.value_or(""));
}

/// All filters hold for one and the same element of the named list.
bool matches_nested(const Json& record, const shapes::NestedFilters& nested) {
    const std::string& property = *nested.nested_property_name;
    const auto elements = find_property(record, property);
    return std::ranges::any_of(elements, [&](const Json* element) {
        return std::ranges::all_of(*nested.filters, [&](const shapes::Filter& filter) {
            return matches_filter(*element, filter, property);
        });
    });
}

/// Walks `name` through objects and lists. Keys may hold dots themselves (hyperparameters), so the
/// longest key that fits is tried first.
void collect(const Json& value, std::string_view name, std::vector<const Json*>& found) {
    if (value.is_array()) {
        for (const Json& element : value) collect(element, name, found);
        return;
    }
    if (name.empty()) {
        found.push_back(&value);
        return;
    }
    if (!value.is_object()) return;
    for (std::size_t end = name.size(); end != name.npos && end > 0;
         end = name.rfind('.', end - 1)) {
        const auto member = value.find(std::string(name.substr(0, end)));
        if (member != value.end())
            return collect(*member, end == name.size() ? "" : name.substr(end + 1), found);
    }
}

/// "Tags.<key>" and "Metrics.<name>" look up lists of pairs by their first half.
void collect_pairs(const Json& record, const char* list, const char* key, const char* value,
                   std::string_view wanted, std::vector<const Json*>& found) {
    const auto pairs = record.find(list);
    if (pairs == record.end()) return;
    for (const Json& pair : *pairs) {
        if (pair.value(key, "") == wanted && pair.contains(value)) found.push_back(&pair[value]);
    }
}

void check_filters(const std::optional<std::vector<shapes::Filter>>& filters) {
    if (!filters) return;
    for (const shapes::Filter& filter : *filters) {
        const std::string op = filter.operator_.value_or("Equals");
        if (op != "Exists" && op != "NotExists" && !filter.value)
            throw_error(Code::invalid, "ValidationException",
                        "The filter on {} with operator {} needs a Value", *filter.name, op);
    }
}

}  // namespace

std::vector<const Json*> find_property(const Json& record, std::string_view name) {
    std::vector<const Json*> found;
    if (name.starts_with("Tags.")) {
        collect_pairs(record, "Tags", "Key", "Value", name.substr(5), found);
        if (!found.empty()) return found;
    } else if (name.starts_with("Metrics.")) {
        collect_pairs(record, "FinalMetricDataList", "MetricName", "Value", name.substr(8), found);
        return found;
    }
    collect(record, name, found);
    return found;
}

void check_expression(const shapes::SearchExpression& expression) {
    check_filters(expression.filters);
    if (expression.nested_filters)
        for (const auto& nested : *expression.nested_filters) check_filters(nested.filters);
    if (expression.sub_expressions)
        for (const auto& sub : *expression.sub_expressions) check_expression(sub);
}

bool satisfies(const Json& record, const shapes::SearchExpression& expression) {
    const bool any = expression.operator_ == "Or";
    std::size_t terms = 0;
    std::size_t held = 0;
    const auto count = [&](bool holds) {
        ++terms;
        held += holds ? 1 : 0;
    };
    if (expression.filters)
        for (const auto& filter : *expression.filters) count(matches_filter(record, filter, {}));
    if (expression.nested_filters)
        for (const auto& nested : *expression.nested_filters) count(matches_nested(record, nested));
    if (expression.sub_expressions)
        for (const auto& sub : *expression.sub_expressions) count(satisfies(record, sub));
    return terms == 0 || (any ? held > 0 : held == terms);
}

bool comes_before(const Json& a, const Json& b, std::string_view property) {
    const auto left = find_property(a, property);
    const auto right = find_property(b, property);
    if (left.empty() || right.empty()) return left.empty() && !right.empty();
    const auto left_number = as_number(*left[0]);
    const auto right_number = as_number(*right[0]);
    // Numbers before text, so that a mixture still has one order.
    if (left_number && right_number) return *left_number < *right_number;
    if (left_number || right_number) return left_number.has_value();
    return as_text(*left[0]) < as_text(*right[0]);
}

}  // namespace ty::api::sagemaker
