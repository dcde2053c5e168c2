// SPDX-License-Identifier: Apache-2.0
#include "base/shape.h"

#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace ty::shape {

namespace {

/// Seconds around the epoch a millisecond count can hold with room to spare (year 5138).
constexpr double kMaxEpochSeconds = 1e11;
/// A value quoted in a message is cut here: a hostile body must not come back whole.
constexpr std::size_t kMaxQuoted = 1024;

std::string child_path(const std::string& path, std::string_view name) {
    return path.empty() ? lower_camel(name) : path + "." + lower_camel(name);
}
std::string element_path(const std::string& path, std::size_t index) {
    return fmt::format("{}.{}.member", path, index + 1);
}

std::string_view kind_words(Kind kind) {
    switch (kind) {
        case Kind::string:
            return "a string";
        case Kind::integer:
            return "a whole number";
        case Kind::number:
            return "a number";
        case Kind::boolean:
            return "true or false";
        case Kind::timestamp:
            return "a time in epoch seconds";
        case Kind::list:
            return "a list";
        case Kind::map:
        case Kind::structure:
            return "an object";
    }
    return "a value";
}

std::string_view json_words(const Json& json) {
    if (json.is_string()) return "a string";
    if (json.is_number()) return "a number";
    if (json.is_boolean()) return "a boolean";
    if (json.is_array()) return "a list";
    return json.is_object() ? "an object" : "null";
}

class Reader {
public:
    explicit Reader(std::vector<std::string>* unknown) : unknown_(unknown) {}

    void read(const Json& json, const Type& type, void* into, const std::string& path) {
        switch (type.kind) {
            case Kind::string:
                if (!json.is_string()) refuse(json, type, path);
                *static_cast<std::string*>(into) = json.get_ref<const std::string&>();
                return;
            case Kind::integer:
                *static_cast<std::int64_t*>(into) = integer(json, type, path);
                return;
            case Kind::number:
                if (!json.is_number()) refuse(json, type, path);
                *static_cast<double*>(into) = json.get<double>();
                return;
            case Kind::boolean:
                if (!json.is_boolean()) refuse(json, type, path);
                *static_cast<bool*>(into) = json.get<bool>();
                return;
            case Kind::timestamp:
                *static_cast<Instant*>(into) = timestamp(json, type, path);
                return;
            case Kind::list:
                read_list(json, type, into, path);
                return;
            case Kind::map:
                read_map(json, type, into, path);
                return;
            case Kind::structure:
                read_structure(json, type, into, path);
                return;
        }
    }

private:
    [[noreturn]] static void refuse(const Json& json, const Type& type, const std::string& path) {
        throw Error(Code::invalid, "SerializationException",
                    path.empty() ? fmt::format("the request must be {}, not {}",
                                               kind_words(type.kind), json_words(json))
                                 : fmt::format("'{}' must be {}, not {}", path,
                                               kind_words(type.kind), json_words(json)),
                    {{path, std::string(kind_words(type.kind))}});
    }

    static std::int64_t integer(const Json& json, const Type& type, const std::string& path) {
        const std::int64_t low = type.wide ? std::numeric_limits<std::int64_t>::min()
                                           : std::numeric_limits<std::int32_t>::min();
        const std::int64_t high = type.wide ? std::numeric_limits<std::int64_t>::max()
                                            : std::numeric_limits<std::int32_t>::max();
        std::optional<std::int64_t> value;
        if (json.is_number_unsigned()) {
            const auto number = json.get<std::uint64_t>();
            if (number <= static_cast<std::uint64_t>(high))
                value = static_cast<std::int64_t>(number);
        } else if (json.is_number_integer()) {
            value = json.get<std::int64_t>();
        } else if (json.is_number_float()) {
            // 2.0 is what some languages write for 2; anything else would be cut silently.
            const double number = json.get<double>();
            if (number == std::floor(number) && std::abs(number) < 9e15)
                value = static_cast<std::int64_t>(number);
        } else {
            refuse(json, type, path);
        }
        if (!value || *value < low || *value > high)
            throw Error(Code::invalid, "SerializationException",
                        fmt::format("'{}' must be a whole number of {} bits, not {}", path,
                                    type.wide ? 64 : 32, json.dump()),
                        {{path, "out of range"}});
        return *value;
    }

    static Instant timestamp(const Json& json, const Type& type, const std::string& path) {
        if (json.is_number()) {
            const double number = json.get<double>();
            if (std::abs(number) <= kMaxEpochSeconds) return from_epoch_seconds(number);
        } else if (json.is_string()) {
            if (const auto instant = parse_iso8601(json.get_ref<const std::string&>()))
                return *instant;
        }
        refuse(json, type, path);
    }

    void read_list(const Json& json, const Type& type, void* into, const std::string& path) {
        if (!json.is_array()) refuse(json, type, path);
        std::size_t index = 0;
        for (const Json& element : json) {
            const std::string at = element_path(path, index++);
            if (element.is_null()) refuse(element, *type.element, at);
            read(element, *type.element, type.access->add(into, {}), at);
        }
    }

    void read_map(const Json& json, const Type& type, void* into, const std::string& path) {
        if (!json.is_object()) refuse(json, type, path);
        for (const auto& [key, value] : json.items()) {
            if (value.is_null()) refuse(value, *type.element, path + "." + key);
            read(value, *type.element, type.access->add(into, key), path + "." + key);
        }
    }

    void read_structure(const Json& json, const Type& type, void* into, const std::string& path) {
        if (!json.is_object()) refuse(json, type, path);
        for (const auto& [key, value] : json.items()) {
            const auto known = std::ranges::find(type.fields, std::string_view(key), &Field::name);
            if (known == type.fields.end()) {
                if (unknown_ != nullptr) unknown_->push_back(child_path(path, key));
            } else if (!value.is_null()) {
                read(value, *known->type, known->emplace(into), child_path(path, key));
            }
        }
    }

    std::vector<std::string>* unknown_;
};

// ---- checking
// --------------------------------------------------------------------------------------

/// The way AWS prints a value: [a, b] for lists, {k=v} for maps, Name(member=v) for structures.
void quote(const Type& type, const void* value, std::string& out) {
    if (out.size() > 4 * kMaxQuoted) return;
    switch (type.kind) {
        case Kind::string:
            out += *static_cast<const std::string*>(value);
            return;
        case Kind::integer:
            out += std::to_string(*static_cast<const std::int64_t*>(value));
            return;
        case Kind::number:
            out += fmt::format("{}", *static_cast<const double*>(value));
            return;
        case Kind::boolean:
            out += *static_cast<const bool*>(value) ? "true" : "false";
            return;
        case Kind::timestamp:
            out += format_iso8601(*static_cast<const Instant*>(value));
            return;
        case Kind::list:
        case Kind::map: {
            const bool list = type.kind == Kind::list;
            out += list ? '[' : '{';
            for (std::size_t i = 0; i < type.access->size(value); ++i) {
                if (i > 0) out += ", ";
                if (!list) out += type.access->key(value, i) + "=";
                quote(*type.element, type.access->at(value, i), out);
            }
            out += list ? ']' : '}';
            return;
        }
        case Kind::structure: {
            out += fmt::format("{}(", type.name);
            bool first = true;
            for (const Field& member : type.fields) {
                const void* held = member.find(value);
                if (held == nullptr) continue;
                if (!first) out += ", ";
                first = false;
                out += lower_camel(member.name) + "=";
                quote(*member.type, held, out);
            }
            out += ')';
            return;
        }
    }
}

std::string quoted(const Type& type, const void* value) {
    std::string text;
    quote(type, value, text);
    const std::string_view cut = truncate_utf8(text, kMaxQuoted);
    return cut.size() == text.size() ? text : std::string(cut) + "...";
}

/// Constraints of one scalar or container by itself, as sentences "Member must …".
std::vector<std::string> broken_rules(const Type& type, const void* value) {
    std::vector<std::string> rules;
    const auto bounds = [&](std::int64_t measured, std::string_view what) {
        if (type.max != kNoLimit && measured > type.max)
            rules.push_back(
                fmt::format("Member must have {} less than or equal to {}", what, type.max));
        if (type.min != kNoLimit && measured < type.min)
            rules.push_back(
                fmt::format("Member must have {} greater than or equal to {}", what, type.min));
    };
    switch (type.kind) {
        case Kind::string: {
            const auto& text = *static_cast<const std::string*>(value);
            bounds(static_cast<std::int64_t>(count_code_points(text)), "length");
            if (type.pattern != nullptr && !type.pattern->matches(text))
                rules.push_back(fmt::format("Member must satisfy regular expression pattern: {}",
                                            type.pattern->text));
            if (!type.values.empty() &&
                std::ranges::find(type.values, std::string_view(text)) == type.values.end())
                rules.push_back(fmt::format("Member must satisfy enum value set: [{}]",
                                            fmt::join(type.values, ", ")));
            break;
        }
        case Kind::integer:
            bounds(*static_cast<const std::int64_t*>(value), "value");
            break;
        case Kind::number: {
            const double number = *static_cast<const double*>(value);
            if (type.max != kNoLimit && number > static_cast<double>(type.max))
                rules.push_back(
                    fmt::format("Member must have value less than or equal to {}", type.max));
            if (type.min != kNoLimit && number < static_cast<double>(type.min))
                rules.push_back(
                    fmt::format("Member must have value greater than or equal to {}", type.min));
            break;
        }
        case Kind::list:
        case Kind::map:
            bounds(static_cast<std::int64_t>(type.access->size(value)), "length");
            break;
        case Kind::boolean:
        case Kind::timestamp:
        case Kind::structure:
            break;
    }
    return rules;
}

/// Every rule a scalar type has, in the order AWS lists them when an element breaks one.
std::string all_rules(const Type& type) {
    std::vector<std::string> rules;
    const std::string_view what = type.kind == Kind::string ? "length" : "value";
    if (type.max != kNoLimit)
        rules.push_back(
            fmt::format("Member must have {} less than or equal to {}", what, type.max));
    if (type.min != kNoLimit)
        rules.push_back(
            fmt::format("Member must have {} greater than or equal to {}", what, type.min));
    if (type.pattern != nullptr)
        rules.push_back(
            fmt::format("Member must satisfy regular expression pattern: {}", type.pattern->text));
    if (!type.values.empty())
        rules.push_back(
            fmt::format("Member must satisfy enum value set: [{}]", fmt::join(type.values, ", ")));
    return fmt::format("[{}]", fmt::join(rules, ", "));
}

bool is_scalar(const Type& type) {
    return type.kind != Kind::structure && type.kind != Kind::list && type.kind != Kind::map;
}

class Checker {
public:
    void check(const Type& type, const void* value, const std::string& path) {
        for (const std::string& rule : broken_rules(type, value))
            add(path, fmt::format("Value '{}'", quoted(type, value)), rule);
        if (type.kind == Kind::structure) {
            for (const Field& member : type.fields) {
                const std::string at = child_path(path, member.name);
                if (const void* held = member.find(value))
                    check(*member.type, held, at);
                else if (member.required)
                    add(at, "Value null", "Member must not be null");
            }
        } else if (type.kind == Kind::list || type.kind == Kind::map) {
            check_elements(type, value, path);
        }
    }
    std::vector<Problem> problems;

private:
    void add(const std::string& path, std::string_view subject, std::string_view rule) {
        problems.push_back({path, fmt::format("{} at '{}' failed to satisfy constraint: {}",
                                              subject, path, rule)});
    }

    /// Elements that are structures have paths of their own. Simple ones are reported once for the
    /// whole container, with all the rules of the element: that is AWS's form.
    void check_elements(const Type& type, const void* value, const std::string& path) {
        const bool map = type.kind == Kind::map;
        bool bad_key = false;
        bool bad_element = false;
        for (std::size_t i = 0; i < type.access->size(value); ++i) {
            if (map)
                bad_key = bad_key || !broken_rules(*type.key, &type.access->key(value, i)).empty();
            const void* element = type.access->at(value, i);
            if (is_scalar(*type.element)) {
                bad_element = bad_element || !broken_rules(*type.element, element).empty();
            } else {
                check(*type.element, element,
                      map ? path + "." + type.access->key(value, i) + ".member"
                          : element_path(path, i));
            }
        }
        if (!bad_key && !bad_element) return;
        const std::string subject = fmt::format("Value '{}'", quoted(type, value));
        if (bad_key)
            add(path, subject, "Map keys must satisfy constraint: " + all_rules(*type.key));
        if (bad_element)
            add(path, subject,
                (map ? "Map value must satisfy constraint: " : "Member must satisfy constraint: ") +
                    all_rules(*type.element));
    }
};

Json write_value(const Type& type, const void* value) {
    switch (type.kind) {
        case Kind::string:
            return *static_cast<const std::string*>(value);
        case Kind::integer:
            return *static_cast<const std::int64_t*>(value);
        case Kind::number:
            return *static_cast<const double*>(value);
        case Kind::boolean:
            return *static_cast<const bool*>(value);
        case Kind::timestamp:
            return to_epoch_seconds(*static_cast<const Instant*>(value));
        case Kind::list: {
            Json list = Json::array();
            for (std::size_t i = 0; i < type.access->size(value); ++i)
                list.push_back(write_value(*type.element, type.access->at(value, i)));
            return list;
        }
        case Kind::map: {
            Json map = Json::object();
            for (std::size_t i = 0; i < type.access->size(value); ++i)
                map[type.access->key(value, i)] =
                    write_value(*type.element, type.access->at(value, i));
            return map;
        }
        case Kind::structure:
            return write_object(type, value);
    }
    return {};
}

}  // namespace

std::string lower_camel(std::string_view name) {
    std::string text(name);
    if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z')
        text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
}

void read_into(const Json& json, const Type& type, void* object,
               std::vector<std::string>* unknown) {
    Reader(unknown).read(json, type, object, "");
}

std::vector<Problem> check_object(const Type& type, const void* object) {
    Checker checker;
    checker.check(type, object, "");
    return std::move(checker.problems);
}

Json write_object(const Type& type, const void* object) {
    Json json = Json::object();
    for (const Field& member : type.fields) {
        if (const void* value = member.find(object))
            json.push_back({std::string(member.name), write_value(*member.type, value)});
    }
    return json;
}

std::string violation_text(std::span<const Problem> problems) {
    std::vector<std::string> sentences;
    for (const Problem& problem : problems) sentences.push_back(problem.message);
    return fmt::format("{} validation error{} detected: {}", problems.size(),
                       problems.size() == 1 ? "" : "s", join(sentences, "; "));
}

void require_none(std::vector<Problem> problems) {
    if (problems.empty()) return;
    std::string text = violation_text(problems);
    throw Error(Code::invalid, "ValidationException", std::move(text), std::move(problems));
}

}  // namespace ty::shape
