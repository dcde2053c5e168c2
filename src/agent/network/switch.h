// SPDX-License-Identifier: Apache-2.0
// The network of one attempt, in the kernel: a bridge in a namespace of its own, and one namespace
// for each host with a cable to it. It vanishes with the last descriptor and process in it.
//
// Single-threaded, and so must the process be: the constructor enters the switch's namespace, and
// later calls visit hosts' namespaces for a moment.
#pragma once

#include "agent/network/addresses.h"
#include "agent/network/netlink.h"

#include <map>
#include <optional>

namespace ty::agent {

class Switch {
public:
    /// Throws denied, unsupported with the kernel's reason.
    Switch();

    /// The host with its address and an open port on the switch; nothing when it is there. What
    /// connects to it is refused, until a program listens.
    void make_host(int number);
    /// A host that nobody had before, for the caller to run programs in: the first taker gets the
    /// one make_host() made, each later one a new one, and the old one's cable is cut. Returns a
    /// number that set_link() wants to see.
    int take_host(int number);
    /// A socket that listens inside the host at the endpoint's own address.
    sys::Fd listen_in(int number, const Endpoint& endpoint);
    /// False: what the host sends and is sent gets lost. Throws conflict when `taken` is not the
    /// newest taker any more.
    void set_link(int number, int taken, bool up);

    /// A socket that listens on the switch's own address.
    sys::Fd listen_on_switch(std::uint16_t port);

    int network_of(int number) const { return hosts_.at(number).network.get(); }
    int own_network() const { return own_.get(); }
    /// -1: the machine's.
    int user() const { return user_ ? user_->get() : -1; }

private:
    struct Host {
        sys::Fd network;
        int port = 0;   ///< index of its cable's end on the switch
        int taken = 0;  ///< how many times
    };
    Host build(int number);

    std::optional<sys::Fd> user_;
    sys::Fd own_;
    std::optional<NetlinkSocket> links_;  ///< the switch's
    int bridge_ = 0;
    std::map<int, Host> hosts_;
};

}  // namespace ty::agent
