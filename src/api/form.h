// SPDX-License-Identifier: Apache-2.0
// The parameters of a query-protocol call: "Action=…&ActionNames.member.1=…".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::api {

class Form {
public:
    explicit Form(std::string_view text);

    std::optional<std::string> find(std::string_view name) const;
    std::string get(std::string_view name, std::string_view otherwise = {}) const;
    /// Throws invalid "ValidationError" naming the parameter when it is absent or empty.
    std::string require(std::string_view name) const;
    /// Throws invalid "ValidationError" when present and outside [lowest, highest].
    long long number(std::string_view name, long long otherwise, long long lowest,
                     long long highest) const;
    /// name.member.1, name.member.2 …, or EC2's name.1, name.2 …; in order, until the first gap.
    std::vector<std::string> list(std::string_view name) const;

private:
    std::vector<std::pair<std::string, std::string>> fields_;  // sorted by name
};

}  // namespace ty::api
