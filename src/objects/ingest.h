// SPDX-License-Identifier: Apache-2.0
// Taking in the bytes of one upload: hashing in one pass, small content kept in memory, the rest
// streamed into a file, verified and made durable. Private to objects.
#pragma once

#include "objects/blobs.h"
#include "objects/objects.h"

#include <optional>
#include <string>

namespace ty::objects {

/// Objects up to this size live in their index row: one commit instead of three disk syncs, which
/// is what uploads of many small source files need.
inline constexpr std::size_t kInlineLimit = 16 * 1024;

struct Ingested {
    std::uint64_t size = 0;
    std::string md5;                               ///< raw
    std::map<std::string, std::string> checksums;  ///< base64, all that were asked for but md5
    std::string data;                              ///< the content, when there is no blob
    std::optional<Blobs::Fresh> blob;              ///< durable
};

enum class Inline { allowed, never };

/// Throws corrupt BadDigest, invalid IncompleteBody / XAmzContentSHA256Mismatch, exhausted
/// DiskFull, and whatever `source` throws; nothing is left then.
Ingested ingest(Blobs& blobs, const Source& source, const Expectation& expected, Inline small);

/// The same into an open file from `offset` on; content durable on return, `blob` not set.
Ingested ingest_at(const sys::Fd& file, std::uint64_t offset, const Source& source,
                   const Expectation& expected);

/// Throws exhausted "DiskFull" in place of the failed system call's error.
void rethrow_naming_full_disk(const Error& error);

}  // namespace ty::objects
