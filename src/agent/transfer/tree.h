// SPDX-License-Identifier: Apache-2.0
// What the program left in a folder, in a fixed order, ready to be packed or uploaded. The program
// is gone by then, but what it wrote is foreign: links are not followed, special files not opened.
#pragma once

#include "sys/fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

struct TreeEntry {
    enum class Kind { folder, file, link };
    std::string path;  ///< relative, '/'-separated
    Kind kind = Kind::file;
    std::uint64_t size = 0;
    unsigned mode = 0644;
    long long modified = 0;  ///< seconds since the epoch
    std::string target;      ///< of a link
};

/// Sorted by path, folders before what is in them. Links that leave the tree, sockets, FIFOs and
/// devices are left out, each with one call of `warn`.
std::vector<TreeEntry> read_tree(const sys::fs::path& root,
                                 const std::function<void(std::string)>& warn);

/// True when following `target` from the folder of `link` stays inside the tree, judged by the
/// text.
bool stays_inside(std::string_view link, std::string_view target);

/// Open a file of the tree without following links anywhere below root.
sys::Fd open_in_tree(const sys::Fd& root, const std::string& path);

}  // namespace ty::agent
