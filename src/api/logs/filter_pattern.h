// SPDX-License-Identifier: Apache-2.0
// The filter patterns of FilterLogEvents, as far as plain text needs them: terms that must all be
// there, "quoted phrases", -excluded ones, and ?alternatives. Private to api/logs/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ty::api::logs {

class FilterPattern {
public:
    /// Throws invalid ("InvalidParameterException") naming what is wrong or not offered here.
    explicit FilterPattern(std::string_view text);
    bool matches(std::string_view message) const;
    bool matches_all() const { return all_.empty() && none_.empty() && any_.empty(); }

private:
    std::vector<std::string> all_, none_, any_;
};

}  // namespace ty::api::logs
