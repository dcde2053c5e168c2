// SPDX-License-Identifier: Apache-2.0
// A foreign source archive (tar, gzip or plain) into a folder, trusting nothing in it: no entry is
// written outside the folder or through a link, no device is made, no bomb is swallowed. What is
// wrong is refused by the entry's name.
#pragma once

#include "base/bytes.h"
#include "sys/fd.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ty::agent {

struct UnpackLimits {
    Bytes total = Bytes(16ull << 30);  ///< unpacked
    std::size_t entries = 500'000;
    std::size_t path = 4096;
};

/// Unpack the archive file `archive`, called `name` in messages, into the existing folder `into`.
/// Returns the paths of the files. Throws invalid ("BadArchive") naming the entry, exhausted
/// (limits, disk full). What was written before a refusal stays; the caller discards the folder.
std::vector<std::string> unpack(const sys::fs::path& archive, const std::string& name,
                                const sys::fs::path& into, const UnpackLimits& limits = {});

/// The same from memory; for tests and fuzzing.
std::vector<std::string> unpack(std::span<const std::byte> archive, const std::string& name,
                                const sys::fs::path& into, const UnpackLimits& limits = {});

}  // namespace ty::agent
