// SPDX-License-Identifier: Apache-2.0
#include "agent/network/switch.h"

#include "agent/sandbox/namespaces.h"
#include "base/error.h"
#include "base/result.h"

#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

namespace ty::agent {

namespace {

constexpr const char* kBridge = "switch";
constexpr const char* kInterface = "eth0";
constexpr int kLoopback = 1;  // index of lo, the first interface of every namespace
constexpr int kBacklog = 1024;

sys::Fd open_own(const char* which) {
    const std::string path = format("/proc/thread-self/ns/{}", which);
    sys::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.is_open()) throw_errno("open {}", path);
    return fd;
}

/// In a host's namespace, as long as it lives.
class Visit {
public:
    Visit(int network, int back) : back_(back) {
        if (::setns(network, CLONE_NEWNET) != 0) throw_errno("enter the network of a host");
    }
    /// Back from a namespace that was just made.
    explicit Visit(int back) : back_(back) {}
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() { TY_ASSERT(::setns(back_, CLONE_NEWNET) == 0); }

private:
    int back_;
};

/// A kernel without IPv6 has none to give up.
void leave_out_link_local(NetlinkSocket& links, int index) {
    (void)capture([&] { links.ask(without_link_local(index), "keep IPv6 quiet"); });
}

sys::Fd listen_at_address(const IpAddress& address, std::uint16_t port) {
    sockaddr_in6 v6 = {};
    sockaddr_in v4 = {};
    v6.sin6_family = AF_INET6;
    v4.sin_family = AF_INET;
    v6.sin6_port = v4.sin_port = htons(port);
    const bool is_v6 = address.is_v6();
    std::memcpy(is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr, address.bytes.data(),
                address.bytes.size());
    sys::Fd fd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (!fd.is_open() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(
            fd.get(),
            is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4),
            is_v6 ? sizeof v6 : sizeof v4) != 0 ||
        ::listen(fd.get(), kBacklog) != 0) {
        throw_errno("listen at {} port {}", to_string(address), port);
    }
    return fd;
}

}  // namespace

Switch::Switch() {
    const Privilege privilege = enter_network_namespace();
    own_ = open_own("net");
    if (privilege == Privilege::user) user_ = open_own("user");
    NetlinkSocket& links = links_.emplace();
    links.ask(set_link_up(kLoopback), "bring the loopback interface up");
    links.ask(new_bridge(kBridge), "make a bridge (kernel module bridge)");
    bridge_ = links.index_of(kBridge);
    leave_out_link_local(links, bridge_);
    links.ask(new_address(bridge_, switch_address(), kHostPrefix), "give the bridge its address");
    links.ask(set_link_up(bridge_), "bring the bridge up");
}

void Switch::make_host(int number) {
    if (!hosts_.contains(number)) hosts_.emplace(number, build(number));
}

Switch::Host Switch::build(int number) {
    Host host;
    std::optional<NetlinkSocket> inside;
    {
        if (::unshare(CLONE_NEWNET) != 0) throw_errno("make the network of {}", host_name(number));
        const Visit visit(own_.get());
        host.network = open_own("net");
        inside.emplace();
    }
    inside->ask(set_link_up(kLoopback), "bring the loopback interface up");
    const Cable cable{.name = format("host{}", number),
                      .bridge = bridge_,
                      .peer = kInterface,
                      .mac = host_mac(number),
                      .peer_ns = host.network.get()};
    links_->ask(new_cable(cable), "make a cable (kernel module veth)");
    host.port = links_->index_of(cable.name);
    const int eth0 = inside->index_of(kInterface);
    leave_out_link_local(*links_, host.port);
    leave_out_link_local(*inside, eth0);
    inside->ask(new_address(eth0, host_address(number), kHostPrefix), "give a host its address");
    links_->ask(set_link_up(host.port), "bring a port of the bridge up");
    inside->ask(set_link_up(eth0), "bring a host's interface up");
    return host;
}

int Switch::take_host(int number) {
    make_host(number);
    if (Host& host = hosts_.at(number); host.taken == 0) return ++host.taken;
    const int taken = hosts_.at(number).taken + 1;
    // Two cables with one address would confuse everybody: the old one goes first.
    links_->ask(delete_link(hosts_.at(number).port), "cut a cable");
    hosts_.erase(number);
    make_host(number);
    return hosts_.at(number).taken = taken;
}

sys::Fd Switch::listen_in(int number, const Endpoint& endpoint) {
    const Visit visit(network_of(number), own_.get());
    if (!endpoint.is_loopback()) {
        NetlinkSocket().ask(new_address(kLoopback, endpoint.address,
                                        static_cast<int>(endpoint.address.bytes.size() * 8)),
                            "offer the daemon's address");
    }
    return listen_at_address(endpoint.address, endpoint.port);
}

void Switch::set_link(int number, int taken, bool up) {
    const auto found = hosts_.find(number);
    if (found == hosts_.end() || found->second.taken != taken) {
        throw_error(Code::conflict, "Replaced", "the place of {} was taken by another agent",
                    host_name(number));
    }
    // The port and not the cable: nobody sees it coming, and it is back at once.
    links_->ask(
        set_port_state(found->second.port, up ? PortState::forwarding : PortState::disabled),
        up ? "open a port of the bridge" : "close a port of the bridge");
}

sys::Fd Switch::listen_on_switch(std::uint16_t port) {
    return listen_at_address(switch_address(), port);
}

}  // namespace ty::agent
