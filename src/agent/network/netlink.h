// SPDX-License-Identifier: Apache-2.0
// As much of rtnetlink as a switch with cables needs, without the ip program or a library:
// messages as bytes (pure), and a socket that asks the kernel and waits for its answer.
#pragma once

#include "sys/fd.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

/// Address in network order: 4 or 16 bytes.
struct IpAddress {
    std::vector<std::uint8_t> bytes;
    bool is_v6() const { return bytes.size() == 16; }
    bool operator==(const IpAddress&) const = default;
};
using MacAddress = std::array<std::uint8_t, 6>;

/// One end of a cable; the other end is "eth0" in another namespace.
struct Cable {
    std::string name;  ///< at most 15 bytes
    int bridge = 0;    ///< index of the bridge to plug into
    std::string peer;  ///< name there
    MacAddress mac{};  ///< of the peer
    int peer_ns = -1;  ///< network namespace of the peer
};

/// Requests, each with NLM_F_REQUEST | NLM_F_ACK; NetlinkSocket numbers them.
std::string new_bridge(std::string_view name);
/// One end plugged in; both are down still.
std::string new_cable(const Cable& cable);
std::string delete_link(int index);
std::string set_link_up(int index);
/// To be said before it is up: no link-local IPv6 address, hence no second of duplicate detection.
std::string without_link_local(int index);
/// A port of a bridge forwards, or drops everything.
enum class PortState { disabled, forwarding };
std::string set_port_state(int index, PortState state);
std::string new_address(int index, const IpAddress& address, int prefix);

/// Belongs to the network namespace in which it was made, wherever its user is later.
class NetlinkSocket {
public:
    NetlinkSocket();
    /// Send and wait for the kernel's answer. Throws what it says, with `what` before it.
    void ask(std::string message, std::string_view what);
    /// Index of an interface; throws not_found.
    int index_of(const std::string& name) const;

private:
    sys::Fd fd_;
    std::uint32_t sequence_ = 0;
};

}  // namespace ty::agent
