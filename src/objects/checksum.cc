// SPDX-License-Identifier: Apache-2.0
// Joining CRCs: the CRC register after n further zero bits is a linear map of the register over
// GF(2). crc(AB) = shift(crc(A), 8 |B|) xor crc(B) for CRCs whose initial and final xor are all
// ones, as all of S3's are. The map for 2^k zero bytes is found by squaring a matrix.
#include "objects/checksum.h"

#include "base/error.h"
#include "base/text.h"

#include <array>

namespace ty::objects {
namespace {

struct Polynomial {
    std::uint64_t reflected;
    unsigned width;
};

Polynomial polynomial(HashKind kind) {
    switch (kind) {
        case HashKind::crc32:
            return {0xEDB88320u, 32};
        case HashKind::crc32c:
            return {0x82F63B78u, 32};
        case HashKind::crc64nvme:
            return {0x9A6C9329AC4BC9B5u, 64};
        case HashKind::sha256:
        case HashKind::sha1:
        case HashKind::md5:
            break;
    }
    throw_error(Code::internal, "", "not a CRC");
}

/// Column i is what bit i of the register becomes.
using Matrix = std::array<std::uint64_t, 64>;

std::uint64_t times(const Matrix& matrix, std::uint64_t vector) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; vector != 0; ++i, vector >>= 1)
        if ((vector & 1) != 0) sum ^= matrix[i];
    return sum;
}

Matrix squared(const Matrix& matrix) {
    Matrix out;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = times(matrix, matrix[i]);
    return out;
}

Matrix one_zero_bit(Polynomial p) {
    Matrix matrix{};
    matrix[0] = p.reflected;
    for (std::size_t i = 1; i < p.width; ++i) matrix[i] = std::uint64_t(1) << (i - 1);
    return matrix;
}

std::uint64_t shift(Polynomial p, std::uint64_t crc, std::uint64_t zero_bytes) {
    Matrix matrix = one_zero_bit(p);
    for (int i = 0; i < 3; ++i) matrix = squared(matrix);  // one bit -> one byte
    for (; zero_bytes != 0; zero_bytes >>= 1, matrix = squared(matrix))
        if ((zero_bytes & 1) != 0) crc = times(matrix, crc);
    return crc;
}

std::uint64_t from_big_endian(std::string_view raw) {
    std::uint64_t value = 0;
    for (const char c : raw) value = value << 8 | static_cast<unsigned char>(c);
    return value;
}

std::string to_big_endian(std::uint64_t value, unsigned width) {
    std::string raw(width / 8, '\0');
    for (auto it = raw.rbegin(); it != raw.rend(); ++it, value >>= 8)
        *it = static_cast<char>(value & 0xff);
    return raw;
}

}  // namespace

std::optional<HashKind> checksum_kind(std::string_view name) {
    if (name == "crc32") return HashKind::crc32;
    if (name == "crc32c") return HashKind::crc32c;
    if (name == "crc64nvme") return HashKind::crc64nvme;
    if (name == "sha1") return HashKind::sha1;
    if (name == "sha256") return HashKind::sha256;
    if (name == "md5") return HashKind::md5;
    return std::nullopt;
}

bool is_crc(HashKind kind) {
    return kind == HashKind::crc32 || kind == HashKind::crc32c || kind == HashKind::crc64nvme;
}

std::string combine_crcs(HashKind kind, std::span<const Piece> pieces) {
    const Polynomial p = polynomial(kind);
    std::uint64_t crc = 0;  // of nothing
    for (const Piece& piece : pieces) crc = shift(p, crc, piece.size) ^ from_big_endian(piece.raw);
    return to_big_endian(crc, p.width);
}

std::string composite(HashKind kind, std::span<const Piece> pieces) {
    Hasher hasher(kind);
    for (const Piece& piece : pieces) hasher.update(piece.raw);
    return fmt::format("{}-{}", to_base64(as_bytes(hasher.finish())), pieces.size());
}

}  // namespace ty::objects
