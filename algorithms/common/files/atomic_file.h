// SPDX-License-Identifier: Apache-2.0
// Files that are either whole or not there.
#pragma once

#include <cstddef>
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

/// Temporary names are ".<name>.<16 hex digits>.tmp": hidden, and what watchers of checkpoint
/// folders pass over. Removes those that killed writers left in `folder` (not below it) and returns
/// how many; call it while nobody writes there. A folder that does not exist has none.
std::size_t remove_temporaries(const std::filesystem::path& folder);

}  // namespace alg
