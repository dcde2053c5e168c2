// SPDX-License-Identifier: Apache-2.0
#include "agent/network/addresses.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

namespace ty::agent {

namespace {

constexpr std::string_view kHostStem = "algo-";
constexpr int kHostsPerBlock = 250;
constexpr std::uint8_t kNetworkA = 10, kNetworkB = 84;

[[noreturn]] void refuse_endpoint(std::string_view text, std::string_view why) {
    throw_error(Code::invalid, "BadEndpoint",
                "the daemon's address {} cannot be offered inside a job's network: {}", text, why);
}

}  // namespace

int host_number(std::string_view host) {
    const auto number = host.starts_with(kHostStem) ? parse_int(host.substr(kHostStem.size()))
                                                    : std::optional<long long>();
    if (!number || *number < 1 || *number > kMostHosts || host != host_name(int(*number))) {
        throw_error(Code::invalid, "BadHost", "host \"{}\" is none of algo-1 to algo-{}", host,
                    kMostHosts);
    }
    return static_cast<int>(*number);
}

std::string host_name(int number) {
    return format("{}{}", kHostStem, number);
}

IpAddress host_address(int number) {
    TY_ASSERT(number >= 1 && number <= kMostHosts);
    return {{kNetworkA, kNetworkB, static_cast<std::uint8_t>(number / kHostsPerBlock),
             static_cast<std::uint8_t>(number % kHostsPerBlock + 1)}};
}

IpAddress switch_address() {
    return {{kNetworkA, kNetworkB, 255, 254}};
}

MacAddress host_mac(int number) {
    const IpAddress address = host_address(number);
    MacAddress mac = {0x02, 0x54};  // 0x02: chosen here, not by a maker of cards
    std::ranges::copy(address.bytes, mac.begin() + 2);
    return mac;
}

std::string to_string(const IpAddress& address) {
    std::array<char, INET6_ADDRSTRLEN> text = {};
    const int family = address.is_v6() ? AF_INET6 : AF_INET;
    if (::inet_ntop(family, address.bytes.data(), text.data(), text.size()) == nullptr) return {};
    return text.data();
}

std::vector<std::pair<std::string, std::string>> host_list(int count) {
    std::vector<std::pair<std::string, std::string>> list;
    for (int number = 1; number <= count; ++number)
        list.emplace_back(host_name(number), to_string(host_address(number)));
    return list;
}

bool Endpoint::is_loopback() const {
    if (!address.is_v6()) return address.bytes[0] == 127;
    return std::ranges::all_of(address.bytes.begin(), address.bytes.end() - 1,
                               [](std::uint8_t byte) { return byte == 0; }) &&
           address.bytes.back() == 1;
}

Endpoint parse_endpoint(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) refuse_endpoint(text, "it has no port");
    const auto port = parse_int(text.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) refuse_endpoint(text, "its port is no port number");
    std::string host(text.substr(0, colon));
    Endpoint endpoint{.address = {}, .port = static_cast<std::uint16_t>(*port)};
    if (host == "localhost") host = "127.0.0.1";  // /etc/hosts of a box says the same
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    endpoint.address.bytes.resize(bracketed ? 16 : 4);
    if (::inet_pton(bracketed ? AF_INET6 : AF_INET, host.c_str(), endpoint.address.bytes.data()) !=
        1) {
        refuse_endpoint(text, "it is no address literal; give the daemon's endpoint as one");
    }
    const std::vector<std::uint8_t>& bytes = endpoint.address.bytes;
    if (std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; }))
        refuse_endpoint(text, "it is a wildcard, not an address");
    if (!bracketed && bytes[0] == kNetworkA && bytes[1] == kNetworkB)
        refuse_endpoint(text, "the hosts of a job use 10.84.0.0/16 themselves");
    return endpoint;
}

}  // namespace ty::agent
