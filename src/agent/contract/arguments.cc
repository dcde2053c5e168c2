// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/arguments.h"

#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

/// Lists are str(list); dicts "k=v,k=v" sorted; None is empty.
std::string argument_value(const PythonValue& value) {
    if (value.kind() == PythonValue::Kind::none) return {};
    if (value.kind() != PythonValue::Kind::dict) return value.str();
    std::vector<std::string> parts;
    PythonMembers members = value.members();
    std::ranges::sort(members, {}, &std::pair<std::string, PythonValue>::first);
    for (const auto& [name, member] : members) parts.push_back(name + "=" + member.str());
    return join(parts, ",");
}

}  // namespace

const PythonValue* Hyperparameters::find_framework(std::string_view name) const {
    const auto found =
        std::ranges::find(framework, name, &std::pair<std::string, PythonValue>::first);
    return found == framework.end() ? nullptr : &found->second;
}

std::optional<std::string> Hyperparameters::framework_text(std::string_view name) const {
    const PythonValue* value = find_framework(name);
    if (value == nullptr || value->kind() == PythonValue::Kind::none) return std::nullopt;
    return value->str();
}

bool Hyperparameters::framework_flag(std::string_view name) const {
    const std::string text = to_lower(framework_text(name).value_or(""));
    return !text.empty() && text != "false" && text != "0" && text != "none";
}

Hyperparameters split_hyperparameters(const plan::Pairs& hyperparameters) {
    Hyperparameters result;
    for (const auto& [name, text] : hyperparameters) {
        const bool ours = name.starts_with("sagemaker_") || name == "_tuning_objective_metric" ||
                          name == "trainyard_elastic";
        (ours ? result.framework : result.user).emplace_back(name, PythonValue::decode(text));
    }
    std::ranges::sort(result.user, {}, &std::pair<std::string, PythonValue>::first);
    std::ranges::sort(result.framework, {}, &std::pair<std::string, PythonValue>::first);
    return result;
}

std::vector<std::string> to_arguments(const PythonMembers& user) {
    std::vector<std::string> result;
    for (const auto& [name, value] : user) {
        result.push_back(name.empty() ? "" : (name.size() > 1 ? "--" : "-") + name);
        result.push_back(argument_value(value));
    }
    return result;
}

std::string shell_quote(const std::string& text) {
    const auto is_plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
    };
    if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
    return "'" + replace_all(text, "'", "'\"'\"'") + "'";
}

}  // namespace ty::agent
