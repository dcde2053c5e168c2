// SPDX-License-Identifier: Apache-2.0
#include "agent/network/netlink.h"

#include "base/error.h"

#include <cstring>

#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace ty::agent {

namespace {

/// The kernel answers a request before send() returns; more than this is no waiting.
constexpr timeval kAnswerLimit = {10, 0};
constexpr std::uint8_t kDisabled = BR_STATE_DISABLED, kForwarding = BR_STATE_FORWARDING;

template <typename T>
std::string_view bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A message under construction. Everything is aligned to four bytes; lengths are filled in when
/// they are known.
class Message {
public:
    template <typename Body>
    Message(std::uint16_t type, std::uint16_t flags, const Body& body) {
        nlmsghdr header = {};
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
        raw(bytes_of(header));
        raw(bytes_of(body));
    }

    Message& put(std::uint16_t type, std::string_view value) {
        const rtattr head = {static_cast<unsigned short>(sizeof(rtattr) + value.size()), type};
        raw(bytes_of(head));
        raw(value);
        return *this;
    }
    template <typename T>
    Message& put(std::uint16_t type, const T& value) requires std::is_integral_v<T> {
        return put(type, bytes_of(value));
    }
    Message& text(std::uint16_t type, std::string_view value) {
        return put(type, std::string(value) + '\0');
    }
    /// What `fill` adds becomes the value.
    template <typename Fill>
    Message& nest(std::uint16_t type, Fill&& fill) {
        const std::size_t begin = text_.size();
        put(type, std::string_view());
        fill(*this);
        const auto length = static_cast<unsigned short>(text_.size() - begin);
        std::memcpy(text_.data() + begin, &length, sizeof length);
        return *this;
    }
    void raw(std::string_view bytes) {
        text_ += bytes;
        text_.resize(NLMSG_ALIGN(text_.size()), '\0');
    }
    std::string done() {
        const auto length = static_cast<std::uint32_t>(text_.size());
        std::memcpy(text_.data() + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
        return std::move(text_);
    }

private:
    std::string text_;
};

constexpr std::uint16_t nested(int type) {
    return static_cast<std::uint16_t>(type | NLA_F_NESTED);
}

std::string_view view_of(std::span<const std::uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string new_bridge(std::string_view name) {
    return Message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, ifinfomsg{})
        .text(IFLA_IFNAME, name)
        .nest(nested(IFLA_LINKINFO), [](Message& info) { info.text(IFLA_INFO_KIND, "bridge"); })
        .done();
}

std::string new_cable(const Cable& cable) {
    return Message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, ifinfomsg{})
        .text(IFLA_IFNAME, cable.name)
        .put(IFLA_MASTER, static_cast<std::uint32_t>(cable.bridge))
        .nest(nested(IFLA_LINKINFO),
              [&](Message& info) {
                  info.text(IFLA_INFO_KIND, "veth");
                  info.nest(nested(IFLA_INFO_DATA), [&](Message& data) {
                      data.nest(nested(VETH_INFO_PEER), [&](Message& peer) {
                          peer.raw(bytes_of(ifinfomsg{}));
                          peer.text(IFLA_IFNAME, cable.peer);
                          peer.put(IFLA_ADDRESS, view_of(cable.mac));
                          peer.put(IFLA_NET_NS_FD, static_cast<std::uint32_t>(cable.peer_ns));
                      });
                  });
              })
        .done();
}

std::string delete_link(int index) {
    ifinfomsg body = {};
    body.ifi_index = index;
    return Message(RTM_DELLINK, 0, body).done();
}

std::string set_link_up(int index) {
    ifinfomsg body = {};
    body.ifi_index = index;
    body.ifi_flags = body.ifi_change = IFF_UP;
    return Message(RTM_NEWLINK, 0, body).done();
}

std::string without_link_local(int index) {
    ifinfomsg body = {};
    body.ifi_index = index;
    return Message(RTM_NEWLINK, 0, body)
        .nest(nested(IFLA_AF_SPEC),
              [](Message& families) {
                  families.nest(nested(AF_INET6), [](Message& v6) {
                      v6.put(IFLA_INET6_ADDR_GEN_MODE,
                             static_cast<std::uint8_t>(IN6_ADDR_GEN_MODE_NONE));
                  });
              })
        .done();
}

std::string set_port_state(int index, PortState state) {
    ifinfomsg body = {};
    body.ifi_family = AF_BRIDGE;
    body.ifi_index = index;
    return Message(RTM_SETLINK, 0, body)
        .nest(nested(IFLA_PROTINFO),
              [&](Message& port) {
                  port.put(IFLA_BRPORT_STATE,
                           state == PortState::forwarding ? kForwarding : kDisabled);
              })
        .done();
}

std::string new_address(int index, const IpAddress& address, int prefix) {
    ifaddrmsg body = {};
    body.ifa_family = address.is_v6() ? AF_INET6 : AF_INET;
    body.ifa_prefixlen = static_cast<std::uint8_t>(prefix);
    body.ifa_flags = address.is_v6() ? IFA_F_NODAD : 0;
    body.ifa_index = static_cast<std::uint32_t>(index);
    Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body);
    message.put(IFA_LOCAL, view_of(address.bytes)).put(IFA_ADDRESS, view_of(address.bytes));
    return message.done();
}

NetlinkSocket::NetlinkSocket() : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
    if (!fd_.is_open()) throw_errno("open an rtnetlink socket");
    (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerLimit, sizeof kAnswerLimit);
    const int on = 1;  // so that an answer does not repeat our request
    (void)::setsockopt(fd_.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
}

void NetlinkSocket::ask(std::string message, std::string_view what) {
    ++sequence_;
    std::memcpy(message.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence_, sizeof sequence_);
    if (::send(fd_.get(), message.data(), message.size(), 0) < 0) throw_errno("{}", what);
    alignas(nlmsghdr) std::array<char, 4096> answer;
    for (;;) {
        const ssize_t got = ::recv(fd_.get(), answer.data(), answer.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno("{}: no answer of the kernel", what);
        nlmsghdr header = {};
        nlmsgerr error = {};
        if (static_cast<std::size_t>(got) < sizeof header + sizeof error) continue;
        std::memcpy(&header, answer.data(), sizeof header);
        if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_seq != sequence_) continue;
        std::memcpy(&error, answer.data() + sizeof header, sizeof error);
        if (error.error != 0) throw errno_error(-error.error, std::string(what));
        return;
    }
}

int NetlinkSocket::index_of(const std::string& name) const {
    ifreq request = {};
    if (name.size() >= sizeof request.ifr_name) {
        throw_error(Code::invalid, "", "interface name {} is too long", name);
    }
    std::memcpy(request.ifr_name, name.data(), name.size());
    if (::ioctl(fd_.get(), SIOCGIFINDEX, &request) != 0) throw_errno("find interface {}", name);
    return request.ifr_ifindex;
}

}  // namespace ty::agent
