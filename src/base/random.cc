// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include "base/error.h"
#include "base/text.h"

#include <sys/random.h>

#include <array>
#include <vector>

namespace ty {

namespace {

std::string uuid_from(std::span<std::byte, 16> b) {
    b[6] = (b[6] & std::byte{0x0f}) | std::byte{0x40};
    b[8] = (b[8] & std::byte{0x3f}) | std::byte{0x80};
    const std::string hex = to_hex(b);
    return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
           hex.substr(16, 4) + "-" + hex.substr(20);
}

std::string token_from(std::span<const std::byte> bytes) {
    constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
    std::string out;
    for (const std::byte b : bytes) out += kAlphabet[std::to_integer<unsigned>(b) & 31];
    return out;
}

void fill(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0) {
            if (errno == EINTR) continue;
            throw_errno("getrandom");
        }
        bytes = bytes.subspan(std::size_t(got));
    }
}

}  // namespace

std::string SystemIds::uuid() {
    std::array<std::byte, 16> bytes{};
    fill(bytes);
    return uuid_from(bytes);
}

std::string SystemIds::token(std::size_t length) {
    std::vector<std::byte> bytes(length);
    fill(bytes);
    return token_from(bytes);
}

std::uint64_t SeededIds::next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

std::string SeededIds::uuid() {
    std::array<std::byte, 16> bytes{};
    for (std::byte& b : bytes) b = std::byte(next() & 255);
    return uuid_from(bytes);
}

std::string SeededIds::token(std::size_t length) {
    std::vector<std::byte> bytes(length);
    for (std::byte& b : bytes) b = std::byte(next() & 255);
    return token_from(bytes);
}

}  // namespace ty
