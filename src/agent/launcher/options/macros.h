// SPDX-License-Identifier: Apache-2.0
// ${name} in log prefixes and script arguments, as Python's Template.safe_substitute treats it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ty::agent {

/// $name and ${name} are replaced when known and left alone otherwise; $$ becomes $. Pure.
std::string substitute(std::string_view text,
                       const std::map<std::string, std::string, std::less<>>& values);

}  // namespace ty::agent
