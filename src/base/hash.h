// SPDX-License-Identifier: Apache-2.0
// Digests and checksums of the AWS wire. SHA and MD5 come from libcrypto's low-level objects (they
// use the CPU's SHA instructions and link without the rest of OpenSSL); CRCs are table-driven.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ty {

using Sha256Digest = std::array<std::byte, 32>;

Sha256Digest sha256(std::string_view data);
std::string sha256_hex(std::string_view data);
Sha256Digest hmac_sha256(std::span<const std::byte> key, std::string_view data);

enum class HashKind { sha256, sha1, md5, crc32, crc32c, crc64nvme };

/// Incremental digest of one kind. Move-only; not shared between threads.
class Hasher {
public:
    explicit Hasher(HashKind kind);
    Hasher(Hasher&&) noexcept;
    Hasher& operator=(Hasher&&) noexcept;
    ~Hasher();
    void update(std::span<const std::byte> data);
    void update(std::string_view data);
    /// Raw digest, big-endian for CRCs as S3's base64 headers want it. Call once.
    std::string finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Compare secrets without an early exit.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace ty
