// SPDX-License-Identifier: Apache-2.0
#define OPENSSL_API_COMPAT \
    0x10100000L  // the low-level digests, still maintained, without the provider machinery
#include "base/hash.h"

#include "base/text.h"

#include <openssl/md5.h>
#include <openssl/sha.h>

#include <cstring>
#include <variant>

namespace ty {

// Init, update, final and not the one-shot SHA256(): that one goes through EVP and would link every
// algorithm of OpenSSL into the agent.
Sha256Digest sha256(std::string_view data) {
    Sha256Digest out{};
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, data.data(), data.size());
    SHA256_Final(reinterpret_cast<unsigned char*>(out.data()), &context);
    return out;
}

std::string sha256_hex(std::string_view data) {
    return to_hex(sha256(data));
}

Sha256Digest hmac_sha256(std::span<const std::byte> key, std::string_view data) {
    std::array<unsigned char, 64> block{};
    if (key.size() > block.size()) {
        const Sha256Digest short_key =
            sha256({reinterpret_cast<const char*>(key.data()), key.size()});
        std::memcpy(block.data(), short_key.data(), short_key.size());
    } else {
        std::memcpy(block.data(), key.data(), key.size());
    }
    std::array<unsigned char, 64> pad{};
    Sha256Digest inner{}, out{};
    SHA256_CTX context;
    for (std::size_t i = 0; i < 64; ++i) pad[i] = block[i] ^ 0x36;
    SHA256_Init(&context);
    SHA256_Update(&context, pad.data(), pad.size());
    SHA256_Update(&context, data.data(), data.size());
    SHA256_Final(reinterpret_cast<unsigned char*>(inner.data()), &context);
    for (std::size_t i = 0; i < 64; ++i) pad[i] = block[i] ^ 0x5c;
    SHA256_Init(&context);
    SHA256_Update(&context, pad.data(), pad.size());
    SHA256_Update(&context, inner.data(), inner.size());
    SHA256_Final(reinterpret_cast<unsigned char*>(out.data()), &context);
    return out;
}

namespace {

/// Slicing-by-8 tables for a reflected polynomial.
template <typename Word>
class CrcTable {
public:
    explicit CrcTable(Word polynomial) {
        for (std::size_t i = 0; i < 256; ++i) {
            Word value = Word(i);
            for (int bit = 0; bit < 8; ++bit)
                value = (value & 1) != 0 ? Word(value >> 1) ^ polynomial : Word(value >> 1);
            table_[0][i] = value;
        }
        for (std::size_t i = 0; i < 256; ++i)
            for (std::size_t k = 1; k < 8; ++k)
                table_[k][i] = Word(table_[k - 1][i] >> 8) ^ table_[0][table_[k - 1][i] & 255];
    }

    Word update(Word crc, std::span<const std::byte> data) const {
        const auto* p = reinterpret_cast<const unsigned char*>(data.data());
        std::size_t left = data.size();
        for (; left >= 8; left -= 8, p += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, p, 8);
            word ^= crc;
            crc = 0;
            for (std::size_t k = 0; k < 8; ++k) crc ^= table_[7 - k][word >> (8 * k) & 255];
        }
        for (; left > 0; --left, ++p) crc = Word(crc >> 8) ^ table_[0][(crc ^ *p) & 255];
        return crc;
    }

private:
    std::array<std::array<Word, 256>, 8> table_{};
};

const CrcTable<std::uint32_t>& crc32_table() {
    static const CrcTable<std::uint32_t> table(0xEDB88320u);
    return table;
}
const CrcTable<std::uint32_t>& crc32c_table() {
    static const CrcTable<std::uint32_t> table(0x82F63B78u);
    return table;
}
const CrcTable<std::uint64_t>& crc64nvme_table() {
    static const CrcTable<std::uint64_t> table(0x9A6C9329AC4BC9B5ull);
    return table;
}

template <typename Word>
std::string big_endian(Word value) {
    std::string out(sizeof(Word), '\0');
    for (std::size_t i = 0; i < sizeof(Word); ++i)
        out[sizeof(Word) - 1 - i] = char(value >> (8 * i) & 255);
    return out;
}

}  // namespace

struct Hasher::State {
    HashKind kind;
    std::variant<std::monostate, SHA256_CTX, SHA_CTX, MD5_CTX> digest;
    std::uint64_t crc = 0;
};

Hasher::Hasher(HashKind kind) : state_(std::make_unique<State>()) {
    state_->kind = kind;
    switch (kind) {
        case HashKind::sha256:
            SHA256_Init(&state_->digest.emplace<SHA256_CTX>());
            break;
        case HashKind::sha1:
            SHA1_Init(&state_->digest.emplace<SHA_CTX>());
            break;
        case HashKind::md5:
            MD5_Init(&state_->digest.emplace<MD5_CTX>());
            break;
        case HashKind::crc32:
        case HashKind::crc32c:
            state_->crc = 0xFFFFFFFFu;
            break;
        case HashKind::crc64nvme:
            state_->crc = ~0ull;
            break;
    }
}

Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> data) {
    State& s = *state_;
    switch (s.kind) {
        case HashKind::sha256:
            SHA256_Update(&std::get<SHA256_CTX>(s.digest), data.data(), data.size());
            break;
        case HashKind::sha1:
            SHA1_Update(&std::get<SHA_CTX>(s.digest), data.data(), data.size());
            break;
        case HashKind::md5:
            MD5_Update(&std::get<MD5_CTX>(s.digest), data.data(), data.size());
            break;
        case HashKind::crc32:
            s.crc = crc32_table().update(std::uint32_t(s.crc), data);
            break;
        case HashKind::crc32c:
            s.crc = crc32c_table().update(std::uint32_t(s.crc), data);
            break;
        case HashKind::crc64nvme:
            s.crc = crc64nvme_table().update(s.crc, data);
            break;
    }
}

void Hasher::update(std::string_view data) {
    update(as_bytes(data));
}

std::string Hasher::finish() {
    State& s = *state_;
    unsigned char out[32];
    switch (s.kind) {
        case HashKind::sha256:
            SHA256_Final(out, &std::get<SHA256_CTX>(s.digest));
            return std::string(reinterpret_cast<char*>(out), 32);
        case HashKind::sha1:
            SHA1_Final(out, &std::get<SHA_CTX>(s.digest));
            return std::string(reinterpret_cast<char*>(out), 20);
        case HashKind::md5:
            MD5_Final(out, &std::get<MD5_CTX>(s.digest));
            return std::string(reinterpret_cast<char*>(out), 16);
        case HashKind::crc32:
        case HashKind::crc32c:
            return big_endian(std::uint32_t(~s.crc));
        case HashKind::crc64nvme:
            return big_endian(~s.crc);
    }
    return {};
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

}  // namespace ty
