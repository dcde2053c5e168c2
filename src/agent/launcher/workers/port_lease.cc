// SPDX-License-Identifier: Apache-2.0
// A bound socket is the lease: the kernel gives a port to one holder, however many launchers look.
#include "agent/launcher/workers/port_lease.h"

#include "base/error.h"

#include <cerrno>
#include <cstdint>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ty::agent {

namespace {

enum class Reuse { no, yes };

/// A socket bound to all addresses of a family; closed when the port is taken or the family absent.
struct Bound {
    sys::Fd socket;
    int error = 0;
};
Bound bind_any(int family, int port, Reuse reuse) {
    Bound bound{sys::Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
    if (!bound.socket.is_open()) return {{}, errno};
    const int yes = 1;
    const int fd = bound.socket.get();
    if (reuse == Reuse::yes) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    int failed = 0;
    if (family == AF_INET6) {
        ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        sockaddr_in6 address = {};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(static_cast<std::uint16_t>(port));
        failed = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } else {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        failed = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    if (failed != 0) return {{}, errno};
    return bound;
}

/// The IPv4 side is held; the IPv6 side is only asked, since a launcher's lease has the former.
sys::Fd try_lease(int port) {
    Bound held = bind_any(AF_INET, port, Reuse::no);
    if (!held.socket.is_open()) return {};
    if (bind_any(AF_INET6, port, Reuse::no).error == EADDRINUSE) return {};
    return std::move(held.socket);
}

/// Launchers that start together begin at different places of the range.
std::uint64_t scatter() {
    const auto now = Deadline::in(std::chrono::nanoseconds(0)).point().time_since_epoch().count();
    std::uint64_t x =
        static_cast<std::uint64_t>(now) ^ (static_cast<std::uint64_t>(::getpid()) << 40);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;  // splitmix64's finisher
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

}  // namespace

int PortLease::hold(int wanted) {
    if (port_ != 0 && (wanted == 0 || wanted == port_)) return port_;
    const auto take = [this](int port) {
        sys::Fd socket = try_lease(port);
        if (!socket.is_open()) return false;
        socket_ = std::move(socket);
        port_ = port;
        used_.insert(port);
        return true;
    };
    if (wanted > 0 && wanted <= 65535 && take(wanted)) return port_;
    if (port_ != 0) return port_;
    const auto count = static_cast<std::uint64_t>(high_ >= low_ ? high_ - low_ + 1 : 0);
    const std::uint64_t start = count == 0 ? 0 : scatter() % count;
    // A narrow range is used again when there is no fresh port left: better than to give up.
    for (const bool fresh : {true, false}) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const int port = low_ + static_cast<int>((start + i) % count);
            if (used_.contains(port) != fresh && take(port)) return port_;
        }
    }
    throw_error(Code::exhausted, "",
                "no port is free between {} and {}; choose another --port-range", low_, high_);
}

int PortLease::release() {
    socket_.close();
    return std::exchange(port_, 0);
}

bool port_is_taken(int port) {
    return bind_any(AF_INET, port, Reuse::yes).error == EADDRINUSE ||
           bind_any(AF_INET6, port, Reuse::yes).error == EADDRINUSE;
}

}  // namespace ty::agent
