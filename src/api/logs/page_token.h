// SPDX-License-Identifier: Apache-2.0
// Where a listing goes on: opaque to clients, stateless for us. Private to api/logs/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ty::api::logs {

/// The name after which the next page starts, as a token that says which listing it belongs to.
std::string page_token(std::string_view listing, std::string_view last);
/// The name in the token; empty without one. Throws invalid ("InvalidParameterException") for a
/// token of another listing or of somebody's own making.
std::string read_page_token(std::string_view listing, const std::optional<std::string>& token);

[[noreturn]] void refuse_token();

}  // namespace ty::api::logs
