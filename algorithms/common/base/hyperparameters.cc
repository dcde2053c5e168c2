// SPDX-License-Identifier: Apache-2.0
#include "common/base/hyperparameters.h"

#include "common/base/error.h"
#include "common/base/log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace alg {

namespace {

constexpr std::size_t kShown = 80;  ///< bytes of a value in a message

std::string quoted(const std::string& text) {
    if (text.size() <= kShown) return "\"" + text + "\"";
    return format("\"{}…\" ({} bytes)", text.substr(0, kShown), text.size());
}

std::string trimmed(const std::string& text) {
    const char* const blank = " \t\r\n";
    const std::size_t first = text.find_first_not_of(blank);
    if (first == std::string::npos) return "";
    return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::optional<double> to_number(const std::string& text) {
    const char* begin = text.data();
    const char* const end = begin + text.size();
    if (begin != end && *begin == '+') ++begin;
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
    return value;
}

/// Also "32.0" and "1e6", which Python's floats become.
std::optional<std::int64_t> to_integer(const std::string& text) {
    const char* begin = text.data();
    const char* const end = begin + text.size();
    if (begin != end && *begin == '+') ++begin;
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc{} && stop == end) return value;
    const std::optional<double> real = to_number(text);
    if (!real || *real != std::floor(*real) || std::abs(*real) > 9007199254740992.0)
        return std::nullopt;
    return static_cast<std::int64_t>(*real);
}

std::optional<bool> to_flag(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
    if (text == "false" || text == "0" || text == "no" || text == "off") return false;
    return std::nullopt;
}

/// "at least 1", "above 0 and at most 1"; empty: anything.
std::string range_text(const Range& range) {
    std::string text;
    const auto add = [&text](const char* relation, double bound) {
        text += format("{}{} {}", text.empty() ? "" : " and ", relation, bound);
    };
    if (range.above) add("above", *range.above);
    if (std::isfinite(range.at_least)) add("at least", range.at_least);
    if (range.below) add("below", *range.below);
    if (std::isfinite(range.at_most)) add("at most", range.at_most);
    return text;
}

bool within(const Range& range, double value) {
    return value >= range.at_least && value <= range.at_most &&
           (!range.above || value > *range.above) && (!range.below || value < *range.below);
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
    return text;
}

template <typename... Ts>
struct Overloaded : Ts... {
    using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

Hyperparameters::Hyperparameters(std::string program) : program_(std::move(program)) {}

Hyperparameters::Parameter& Hyperparameters::add(const std::string& name, const std::string& type,
                                                 Target target, const std::string& help) {
    if (find(name) != nullptr) throw std::logic_error("hyperparameter declared twice: " + name);
    Parameter parameter;
    parameter.row.name = name;
    parameter.row.type = type;
    parameter.row.help = help;
    parameter.target = target;
    parameters_.push_back(std::move(parameter));
    Parameter& added = parameters_.back();
    const auto all = values();  // what is bound now is the default
    if (const auto found = all.find(name); found != all.end()) added.row.standard = found->second;
    return added;
}

void Hyperparameters::integer(const std::string& name, std::int64_t* target, Range range,
                              const std::string& help) {
    Parameter& added = add(name, "integer", target, help);
    added.range = range;
    added.row.allowed = range_text(range);
}

void Hyperparameters::number(const std::string& name, double* target, Range range,
                             const std::string& help) {
    Parameter& added = add(name, "number", target, help);
    added.range = range;
    added.row.allowed = range_text(range);
}

void Hyperparameters::flag(const std::string& name, bool* target, const std::string& help) {
    add(name, "flag", target, help).row.allowed = "true, false";
}

void Hyperparameters::text(const std::string& name, std::string* target, const std::string& help) {
    add(name, "text", target, help);
}

void Hyperparameters::choice(const std::string& name, std::string* target,
                             std::vector<std::string> choices, const std::string& help) {
    Parameter& added = add(name, "choice", target, help);
    added.row.allowed = joined(choices, ", ");
    added.choices = std::move(choices);
}

void Hyperparameters::ignored(const std::string& name, const std::string& why) {
    add(name, "any", std::monostate{}, why).row.ignored = true;
}

void Hyperparameters::alias(const std::string& other, const std::string& name) {
    if (find(name) == nullptr) throw std::logic_error("alias of an undeclared name: " + name);
    aliases_.emplace_back(other, name);
}

const Hyperparameters::Parameter* Hyperparameters::find(const std::string& name) const {
    for (const Parameter& parameter : parameters_)
        if (parameter.row.name == name) return &parameter;
    for (const auto& [other, declared] : aliases_)
        if (other == name) return find(declared);
    return nullptr;
}

/// Returns the problem, or nothing and `value`.
std::string Hyperparameters::parse(const Parameter& parameter, const std::string& given,
                                   Value& value) {
    const std::string text = trimmed(given);
    const auto wrong = [&](const std::string& expected) {
        return format("is {}; {} is expected", quoted(given), expected);
    };
    const auto in_range = [&](double number) -> std::string {
        if (within(parameter.range, number)) return "";
        return format("is {}; it must be {}", quoted(text), parameter.row.allowed);
    };
    return std::visit(Overloaded{
                          [](std::monostate) { return std::string(); },
                          [&](std::int64_t*) {
                              const std::optional<std::int64_t> number = to_integer(text);
                              if (!number) return wrong("a whole number");
                              value = *number;
                              return in_range(static_cast<double>(*number));
                          },
                          [&](double*) {
                              const std::optional<double> number = to_number(text);
                              if (!number) return wrong("a number");
                              value = *number;
                              return in_range(*number);
                          },
                          [&](bool*) {
                              const std::optional<bool> flag = to_flag(text);
                              if (!flag) return wrong("true or false");
                              value = *flag;
                              return std::string();
                          },
                          [&](std::string*) {
                              const auto& choices = parameter.choices;
                              value = choices.empty() ? given : text;
                              if (choices.empty() ||
                                  std::find(choices.begin(), choices.end(), text) != choices.end())
                                  return std::string();
                              return wrong("one of " + parameter.row.allowed);
                          },
                      },
                      parameter.target);
}

std::string Hyperparameters::unknown(const std::string& name) const {
    const std::vector<std::string> close = nearest(name, names(), 2);
    if (close.empty()) return format("{} is unknown", quoted(name));
    return format("{} is unknown; did you mean {}?", quoted(name), joined(close, " or "));
}

void Hyperparameters::read(const std::map<std::string, std::string>& given) {
    std::vector<std::string> problems;
    std::map<std::string, std::string> source;  // declared name -> name it was given by
    std::vector<std::pair<const Parameter*, Value>> parsed;
    for (const auto& [name, text] : given) {
        const Parameter* parameter = find(name);
        if (parameter == nullptr) {
            problems.push_back(unknown(name));
            continue;
        }
        const auto [first, fresh] = source.emplace(parameter->row.name, name);
        if (!fresh && given.at(first->second) != text) {
            problems.push_back(format("{} and {} are the same and differ", first->second, name));
            continue;
        }
        Value value;
        const std::string problem = parse(*parameter, text, value);
        if (!problem.empty())
            problems.push_back(name + " " + problem);
        else
            parsed.emplace_back(parameter, std::move(value));
    }
    if (!problems.empty())
        fail("{}: {} that cannot be used: {}", program_,
             problems.size() == 1 ? std::string("a hyperparameter")
                                  : format("{} hyperparameters", problems.size()),
             joined(problems, "; "));
    for (auto& [parameter, value] : parsed)
        std::visit(Overloaded{
                       [](std::monostate) {},
                       [&value](auto* target) {
                           *target = std::get<std::remove_pointer_t<decltype(target)>>(value);
                       },
                   },
                   parameter->target);
}

std::vector<Hyperparameters::Row> Hyperparameters::describe() const {
    std::vector<Row> rows;
    for (const Parameter& parameter : parameters_) rows.push_back(parameter.row);
    for (const auto& [other, name] : aliases_) {
        Row row = find(name)->row;
        row.name = other;
        row.alias_of = name;
        rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<std::string> Hyperparameters::names() const {
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters_) names.push_back(parameter.row.name);
    for (const auto& [other, name] : aliases_) names.push_back(other);
    return names;
}

std::map<std::string, std::string> Hyperparameters::values() const {
    std::map<std::string, std::string> values;
    for (const Parameter& parameter : parameters_) {
        const std::string& name = parameter.row.name;
        std::visit(Overloaded{
                       [](std::monostate) {},
                       [&](bool* target) { values[name] = *target ? "true" : "false"; },
                       [&](std::string* target) { values[name] = *target; },
                       [&](auto* target) { values[name] = format("{}", *target); },
                   },
                   parameter.target);
    }
    return values;
}

std::string Hyperparameters::help() const {
    std::string text;
    for (const Row& row : describe()) {
        if (!row.alias_of.empty()) {
            text += format("  --{:<28} same as --{}\n", row.name, row.alias_of);
            continue;
        }
        std::string facts = row.ignored ? "without effect" : row.type;
        if (!row.allowed.empty() && row.type != "flag") facts += ", " + row.allowed;
        if (!row.standard.empty()) facts += ", default " + row.standard;
        text += format("  --{:<28} {} ({})\n", row.name, row.help, facts);
    }
    return text;
}

std::string Hyperparameters::to_json() const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& row : describe())
        list.push_back({{"name", row.name},
                        {"type", row.type},
                        {"default", row.standard},
                        {"allowed", row.allowed},
                        {"help", row.help},
                        {"alias_of", row.alias_of},
                        {"ignored", row.ignored}});
    return list.dump(1);
}

bool answer_help(int argc, const char* const* argv, const Hyperparameters& declared) {
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word != "--help" && word != "-h" && word != "--describe") continue;
        if (word == "--describe")
            print_line(declared.to_json());
        else
            print_line(
                "folders: --<channel> DIR, --model DIR, --checkpoints DIR, --output DIR\n"
                "configuration groups: --config group=choice, key=value\n"
                "hyperparameters:\n" +
                declared.help());
        return true;
    }
    return false;
}

std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known,
                                 std::size_t count) {
    constexpr std::size_t kLongest = 256;  // hostile names must not cost quadratic time
    if (name.size() > kLongest) return {};
    std::vector<std::pair<std::size_t, std::string>> ranked;
    for (const std::string& other : known) {
        std::vector<std::size_t> row(other.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 1; i <= name.size(); ++i) {
            std::size_t diagonal = std::exchange(row[0], i);
            for (std::size_t j = 1; j <= other.size(); ++j) {
                const std::size_t replaced = diagonal + (name[i - 1] == other[j - 1] ? 0 : 1);
                diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
            }
        }
        std::size_t distance = row.back();
        // Part of the name ("lr" aside) is as good as a typing error: steps, num_train_steps.
        if (name.size() >= 4 && (other.find(name) != std::string::npos ||
                                 (other.size() >= 4 && name.find(other) != std::string::npos)))
            distance = std::min<std::size_t>(distance, 2);
        if (distance <= std::max<std::size_t>(2, name.size() / 3))
            ranked.emplace_back(distance, other);
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> result;
    for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i)
        result.push_back(ranked[i].second);
    return result;
}

}  // namespace alg
