// SPDX-License-Identifier: Apache-2.0
// S3's checksums by name: computing, comparing, and putting those of parts together. Private to
// objects.
#pragma once

#include "base/hash.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ty::objects {

/// "crc32", "crc32c", "crc64nvme", "sha1", "sha256", "md5".
std::optional<HashKind> checksum_kind(std::string_view name);

/// One part of a whole, with its raw (big-endian) checksum.
struct Piece {
    std::string raw;
    std::uint64_t size = 0;
};

/// The CRC of the concatenation, without its bytes: raw, big-endian. crc32, crc32c, crc64nvme only.
std::string combine_crcs(HashKind kind, std::span<const Piece> pieces);
bool is_crc(HashKind kind);

/// S3's composite: base64 of the hash of the raw checksums, then "-<count>".
std::string composite(HashKind kind, std::span<const Piece> pieces);

}  // namespace ty::objects
