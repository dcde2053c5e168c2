// SPDX-License-Identifier: Apache-2.0
// Header lists are short: linear search beats any index.
#include "base/text.h"
#include "http/http.h"

#include <algorithm>

namespace ty::http {

void Headers::set(std::string_view name, std::string value) {
    for (auto it = fields_.begin(); it != fields_.end(); ++it) {
        if (!equals_ignoring_case(it->first, name)) continue;
        it->second = std::move(value);
        const auto same = [name](const auto& field) {
            return equals_ignoring_case(field.first, name);
        };
        fields_.erase(std::remove_if(it + 1, fields_.end(), same), fields_.end());
        return;
    }
    add(std::string(name), std::move(value));
}

void Headers::remove(std::string_view name) {
    std::erase_if(fields_,
                  [name](const auto& field) { return equals_ignoring_case(field.first, name); });
}

std::optional<std::string_view> Headers::find(std::string_view name) const {
    for (const auto& [key, value] : fields_) {
        if (equals_ignoring_case(key, name)) return value;
    }
    return std::nullopt;
}

}  // namespace ty::http
