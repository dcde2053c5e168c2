// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes as a type, with literals and human text.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace ty {

class Bytes {
public:
    constexpr Bytes() = default;
    constexpr explicit Bytes(std::uint64_t count) : count_(count) {}
    constexpr std::uint64_t count() const { return count_; }
    constexpr auto operator<=>(const Bytes&) const = default;

private:
    std::uint64_t count_ = 0;
};

/// "64.0 MiB", "812 B".
std::string to_string(Bytes bytes);

namespace literals {
constexpr Bytes operator""_KiB(unsigned long long n) {
    return Bytes(n << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
    return Bytes(n << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
    return Bytes(n << 30);
}
}  // namespace literals

}  // namespace ty
