// SPDX-License-Identifier: Apache-2.0
#include "common/training/network.h"

#include "common/base/error.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <memory>

namespace alg {

namespace {

std::string text_of(const sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                  sizeof text);
    } else if (address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
                  sizeof text);
    }
    return text;
}

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1";
}

/// Address of the first interface that is up and that `wanted` accepts, IPv4 before IPv6.
template <typename Wanted>
std::string first_address(const Wanted& wanted) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return "";
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
    for (const int family : {AF_INET, AF_INET6}) {
        for (const ifaddrs* at = list; at; at = at->ifa_next) {
            if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP)) {
                continue;
            }
            const std::string address = text_of(at->ifa_addr);
            // Link-local IPv6 addresses need a scope, which no peer can know.
            if (!address.starts_with("fe80") && wanted(std::string(at->ifa_name), address)) {
                return address;
            }
        }
    }
    return "";
}

/// The source address of the route to `host`; nothing is sent.
std::string address_towards(const std::string& host) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_DGRAM;
    if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) {
        return "";
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return "";
    }
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    const bool good = connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    close(fd);
    return good ? text_of(reinterpret_cast<const sockaddr*>(&own)) : "";
}

}  // namespace

std::string address_of_interface(const std::string& interface) {
    return first_address(
        [&interface](const std::string& name, const std::string&) { return name == interface; });
}

std::string own_address(const Place& place, const std::string& forced) {
    if (!forced.empty()) {
        // PyTorch takes a list; the first serves.
        const std::string name = forced.substr(0, forced.find(','));
        const std::string address = address_of_interface(name);
        if (address.empty()) {
            fail(
                "GLOO_SOCKET_IFNAME names the network interface \"{}\", which is not up or has no "
                "address; see \"ip address\" or unset it",
                name);
        }
        return address;
    }
    if (place.world == place.local_world) {
        return "127.0.0.1";
    }
    if (!place.interface.empty()) {
        if (std::string address = address_of_interface(place.interface); !address.empty()) {
            return address;
        }
    }
    // A host's own name is often 127.0.1.1 to itself, where no other host reaches it.
    if (std::string address = address_towards(place.master_address);
        !address.empty() && !is_loopback(address)) {
        return address;
    }
    return first_address(
        [](const std::string&, const std::string& address) { return !is_loopback(address); });
}

}  // namespace alg
