// SPDX-License-Identifier: Apache-2.0
// Small JSON files written by others: configuration of a job, of a model.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace alg {

/// The whole file. Throws Failure when it cannot be read or is larger than `limit`; nullopt when
/// there is none.
std::optional<std::string> read_small_file(const std::filesystem::path& path, std::size_t limit);

/// An object of at most 1 MiB; nullopt when there is no such file. Throws Failure naming file and
/// place for anything else.
std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// "a list", "a number"…: a value's type in words for messages.
std::string kind_of(const nlohmann::json& value);

}  // namespace alg
