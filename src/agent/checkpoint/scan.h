// SPDX-License-Identifier: Apache-2.0
// The checkpoint folder as it is now. Foreign: links are not followed, special files not opened.
// Private to checkpoint/.
#pragma once

#include "sys/fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ty::agent {

/// Two equal marks of one path: the file has not been touched in between.
struct FileMark {
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< nanoseconds
    std::uint64_t inode = 0;
    bool operator==(const FileMark&) const = default;
};
/// Of an open file. Throws what fstat says.
FileMark mark_of(int fd);

struct ScannedFile {
    std::string path;  ///< relative
    FileMark mark;
    bool operator==(const ScannedFile&) const = default;
};

/// `warn(path, why)` for what cannot be kept: links, sockets, unreadable folders.
using ScanWarning = std::function<void(const std::string& path, const std::string& why)>;

/// Regular files that are meant to be kept (names.h), sorted by path. Empty when the folder is
/// gone.
std::vector<ScannedFile> scan_folder(const sys::fs::path& root, const ScanWarning& warn);

}  // namespace ty::agent
