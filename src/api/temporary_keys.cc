// SPDX-License-Identifier: Apache-2.0
// See temporary_keys.h. Layout of an access key: "ASIA", then 16 base32 characters of ten bytes:
// four of expiry (seconds, big-endian), six random.
#include "api/temporary_keys.h"

#include "base/hash.h"
#include "base/text.h"

#include <array>

namespace ty::api {

namespace {

constexpr std::string_view kPrefix = "ASIA";
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr std::size_t kDigits = 16;

std::string to_base32(std::span<const std::byte, 10> bytes) {
    std::string out;
    std::uint32_t window = 0;
    int bits = 0;
    for (const std::byte b : bytes) {
        window = window << 8 | std::to_integer<std::uint32_t>(b);
        for (bits += 8; bits >= 5; bits -= 5) out += kAlphabet[window >> (bits - 5) & 31];
    }
    return out;
}

/// The first four of the ten bytes; nullopt when the text is no base32.
std::optional<std::uint32_t> read_expiry(std::string_view digits) {
    std::uint64_t high = 0;
    for (const char c : digits)
        if (kAlphabet.find(c) == std::string_view::npos) return std::nullopt;
    for (const char c : digits.substr(0, 7)) high = high << 5 | std::uint64_t(kAlphabet.find(c));
    return std::uint32_t(high >> 3);
}

std::string derive(const aws::Credentials& root, std::string_view purpose,
                   std::string_view access_key) {
    return to_base64(
        hmac_sha256(as_bytes(root.secret_key), format("trainyard {}\n{}", purpose, access_key)));
}

aws::Credentials keys_for(const aws::Credentials& root, std::string access_key) {
    std::string secret = derive(root, "session secret", access_key).substr(0, 40);
    std::string token = derive(root, "session token", access_key);
    return {std::move(access_key), std::move(secret), std::move(token)};
}

}  // namespace

aws::Credentials issue_temporary_keys(const aws::Credentials& root, Ids& ids, Instant expiry) {
    const auto until = std::uint32_t(to_epoch_millis(expiry) / 1000);
    std::array<std::byte, 10> bytes{};
    for (std::size_t i = 0; i < 4; ++i) bytes[i] = std::byte(until >> (24 - 8 * i) & 255);
    const Sha256Digest noise = sha256(ids.token(32));
    for (std::size_t i = 0; i < 6; ++i) bytes[4 + i] = noise[i];
    return keys_for(root, std::string(kPrefix) + to_base32(bytes));
}

std::optional<aws::Credentials> find_temporary_keys(const aws::Credentials& root,
                                                    std::string_view access_key, Instant now) {
    if (!access_key.starts_with(kPrefix) || access_key.size() != kPrefix.size() + kDigits)
        return std::nullopt;
    const auto expiry = read_expiry(access_key.substr(kPrefix.size()));
    if (!expiry) return std::nullopt;
    if (to_epoch_millis(now) / 1000 >= static_cast<long long>(*expiry))
        throw_error(Code::denied, "ExpiredToken",
                    "The security token included in the request is expired");
    return keys_for(root, std::string(access_key));
}

}  // namespace ty::api
