// SPDX-License-Identifier: Apache-2.0
// Files that are either whole or not there.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace alg {

/// Calls `write` with a temporary path in the same folder, then fsync, rename onto `file` and fsync
/// of the folder. Creates missing folders. When anything fails, the temporary file is removed,
/// `file` is as before, and a Failure names the file and the reason ("no space left on device").
void write_atomically(const std::filesystem::path& file,
                      const std::function<void(const std::filesystem::path&)>& write);
void write_text_atomically(const std::filesystem::path& file, std::string_view text);

}  // namespace alg
