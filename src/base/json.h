// SPDX-License-Identifier: Apache-2.0
// JSON documents. Objects keep the order in which members arrived: hyperparameter order is part of
// the training contract. Include <nlohmann/json.hpp> only in .cc files that build or walk
// documents.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace ty {

using Json = nlohmann::ordered_json;

/// Throws invalid ("MalformedJson") naming the byte position. Depth is limited to 64, duplicate
/// members and invalid UTF-8 are refused: hostile bytes must not reach a handler in a strange form.
Json parse_json(std::string_view text);
/// Compact; invalid UTF-8 is replaced, never thrown on.
std::string dump_json(const Json& value);
/// Indented by two, for people and golden files.
std::string dump_json_pretty(const Json& value);

}  // namespace ty
