// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/endpoints.h"

#include "agent/launcher/link/frame_socket.h"
#include "base/error.h"

#include <cstring>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr int kBacklog = 4096;

const sockaddr_in& as_v4(const sockaddr_storage& storage) {
    return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& as_v6(const sockaddr_storage& storage) {
    return reinterpret_cast<const sockaddr_in6&>(storage);
}

bool same_host(const SocketAddress& a, const sockaddr& other) {
    if (other.sa_family != a.storage.ss_family) return false;
    if (other.sa_family == AF_INET) {
        const auto& b = reinterpret_cast<const sockaddr_in&>(other);
        return as_v4(a.storage).sin_addr.s_addr == b.sin_addr.s_addr;
    }
    if (other.sa_family != AF_INET6) return false;
    const auto& b = reinterpret_cast<const sockaddr_in6&>(other);
    return std::memcmp(&as_v6(a.storage).sin6_addr, &b.sin6_addr, sizeof b.sin6_addr) == 0;
}

std::vector<SocketAddress> look_up(const std::string& host, std::uint16_t port, int flags) {
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    addrinfo* list = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return {};
    std::vector<SocketAddress> found;
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
        SocketAddress address;
        std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
        address.size = entry->ai_addrlen;
        found.push_back(address);
    }
    ::freeaddrinfo(list);
    return found;
}

sys::Fd bind_family(int family, std::uint16_t port, bool loopback_only) {
    sys::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.is_open()) return {};
    const int on = 1, off = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int failed = 0;
    if (family == AF_INET6) {
        ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        sockaddr_in6 address = {};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(port);
        address.sin6_addr = in6addr_any;
        failed = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } else {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
        failed = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    if (failed != 0) return {};
    return fd;
}

}  // namespace

std::string SocketAddress::text() const {
    char host[NI_MAXHOST] = {};
    char port[NI_MAXSERV] = {};
    if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host, sizeof host, port,
                      sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "?";
    }
    return storage.ss_family == AF_INET6 ? format("[{}]:{}", host, port)
                                         : format("{}:{}", host, port);
}

bool SocketAddress::is_loopback() const {
    if (storage.ss_family == AF_INET) {
        return (ntohl(as_v4(storage).sin_addr.s_addr) >> 24) == 127;
    }
    return storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&as_v6(storage).sin6_addr);
}

std::optional<SocketAddress> literal_address(const std::string& host, std::uint16_t port) {
    const std::string text = host.empty() || host == "localhost" ? "127.0.0.1" : host;
    const std::vector<SocketAddress> found = look_up(text, port, AI_NUMERICHOST);
    if (found.empty()) return std::nullopt;
    return found.front();
}

std::vector<SocketAddress> resolve_address(const std::string& host, std::uint16_t port) {
    return look_up(host, port, 0);
}

bool is_of_this_machine(const SocketAddress& address) {
    if (address.is_loopback()) return true;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return false;
    bool found = false;
    for (const ifaddrs* entry = list; entry != nullptr && !found; entry = entry->ifa_next) {
        found = entry->ifa_addr != nullptr && same_host(address, *entry->ifa_addr);
    }
    ::freeifaddrs(list);
    return found;
}

Resolver::Resolver(Names names) : done_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!done_.is_open()) throw_errno("make an eventfd");
    thread_ = std::jthread([this, names = std::move(names)] {
        for (const auto& [host, port] : names) found_.push_back(resolve_address(host, port));
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t put = ::write(done_.get(), &one, sizeof one);
    });
}

std::vector<std::vector<SocketAddress>> Resolver::take() {
    thread_.join();
    return std::move(found_);
}

sys::Fd bind_port(std::uint16_t port, bool loopback_only) {
    if (!loopback_only) {
        sys::Fd fd = bind_family(AF_INET6, port, false);
        if (fd.is_open() || errno == EADDRINUSE) return fd;
    }
    return bind_family(AF_INET, port, loopback_only);
}

bool start_listening(int fd) {
    return ::listen(fd, kBacklog) == 0;
}

std::uint16_t bound_port(int fd) {
    sockaddr_storage bound = {};
    socklen_t size = sizeof bound;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
    return ntohs(bound.ss_family == AF_INET6 ? as_v6(bound).sin6_port : as_v4(bound).sin_port);
}

Dialling dial(const SocketAddress& address) {
    Dialling result{.fd = sys::Fd(::socket(address.storage.ss_family,
                                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
    if (!result.fd.is_open()) {
        result.error = errno;
        return result;
    }
    tune_connection(result.fd.get());
    if (::connect(result.fd.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                  address.size) != 0 &&
        errno != EINPROGRESS && errno != EINTR) {
        result.error = errno;
    }
    return result;
}

int dial_result(int fd) {
    int failed = 0;
    socklen_t size = sizeof failed;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return errno;
    return failed;
}

bool is_connected_to_itself(int fd) {
    sockaddr_storage own = {}, other = {};
    socklen_t own_size = sizeof own, other_size = sizeof other;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) return false;
    return own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

}  // namespace ty::agent
