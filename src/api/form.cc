// SPDX-License-Identifier: Apache-2.0
// See form.h.
#include "api/form.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api {

Form::Form(std::string_view text) : fields_(parse_query(text)) {
    std::ranges::stable_sort(fields_, {}, &std::pair<std::string, std::string>::first);
}

std::optional<std::string> Form::find(std::string_view name) const {
    const auto found = std::ranges::lower_bound(
        fields_, name, {}, [](const auto& field) { return std::string_view(field.first); });
    if (found == fields_.end() || found->first != name) return std::nullopt;
    return found->second;
}

std::string Form::get(std::string_view name, std::string_view otherwise) const {
    return find(name).value_or(std::string(otherwise));
}

std::string Form::require(std::string_view name) const {
    std::string value = get(name);
    if (value.empty())
        throw_error(Code::invalid, "ValidationError",
                    "1 validation error detected: Value null at '{}' failed to satisfy constraint: "
                    "Member must not be null",
                    name);
    return value;
}

long long Form::number(std::string_view name, long long otherwise, long long lowest,
                       long long highest) const {
    const auto text = find(name);
    if (!text) return otherwise;
    const auto value = parse_int(*text);
    if (!value || *value < lowest || *value > highest)
        throw_error(Code::invalid, "ValidationError",
                    "1 validation error detected: Value '{}' at '{}' failed to satisfy constraint: "
                    "Member must have value "
                    "between {} and {}",
                    to_valid_utf8(*text), name, lowest, highest);
    return *value;
}

std::vector<std::string> Form::list(std::string_view name) const {
    for (const std::string_view infix : {".member.", "."}) {
        std::vector<std::string> out;
        while (auto value = find(format("{}{}{}", name, infix, out.size() + 1)))
            out.push_back(*std::move(value));
        if (!out.empty()) return out;
    }
    return {};
}

}  // namespace ty::api
