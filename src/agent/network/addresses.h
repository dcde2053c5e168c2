// SPDX-License-Identifier: Apache-2.0
// Who has which address in the network of an attempt. Pure arithmetic: two attempts use the same
// addresses in networks that do not know of each other.
#pragma once

#include "agent/network/netlink.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::agent {

inline constexpr int kHostPrefix = 16;   ///< all hosts are in 10.84.0.0/16
inline constexpr int kMostHosts = 1000;  ///< far beyond what CreateTrainingJob takes
inline constexpr std::uint16_t kRendezvousPort = 29400;

/// 3 of "algo-3". Throws invalid for anything else, and beyond kMostHosts.
int host_number(std::string_view host);
std::string host_name(int number);
/// 10.84.0.2 for the first host: no last byte is 0 or 255, as old software expects.
IpAddress host_address(int number);
/// Of the switch itself, where the coordinator listens: 10.84.255.254.
IpAddress switch_address();
/// Follows from the number: a replaced host answers to what its peers remember of the old one.
MacAddress host_mac(int number);
std::string to_string(const IpAddress& address);

/// Name and address of the hosts 1 to `count`.
std::vector<std::pair<std::string, std::string>> host_list(int count);

/// An address literal or localhost, with a port: "127.0.0.1:4545", "[::1]:4545".
struct Endpoint {
    IpAddress address;
    std::uint16_t port = 0;
    /// Reachable in every network namespace without our doing.
    bool is_loopback() const;
};
/// Throws invalid for names, wildcards, and addresses that hosts of the network have themselves.
Endpoint parse_endpoint(std::string_view text);

}  // namespace ty::agent
