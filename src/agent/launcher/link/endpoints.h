// SPDX-License-Identifier: Apache-2.0
// Socket addresses for the rendezvous: resolved, recognised as this machine's, listened on,
// dialled.
#pragma once

#include "sys/fd.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>

namespace ty::agent {

struct SocketAddress {
    sockaddr_storage storage = {};
    socklen_t size = 0;
    std::string text() const;  ///< "10.0.0.1:29400", "[::1]:29400"
    bool is_loopback() const;
};

/// An IP literal or "localhost"; nullopt for names.
std::optional<SocketAddress> literal_address(const std::string& host, std::uint16_t port);
/// Asks the resolver; blocks. Empty when the name is unknown.
std::vector<SocketAddress> resolve_address(const std::string& host, std::uint16_t port);
/// Loopback, or an address of one of our interfaces.
bool is_of_this_machine(const SocketAddress& address);

/// Names resolved beside the caller's thread; the destructor waits for the resolver's own timeout.
class Resolver {
public:
    using Names = std::vector<std::pair<std::string, std::uint16_t>>;
    explicit Resolver(Names names);
    int fd() const { return done_.get(); }  ///< readable when finished
    /// One list per name; call when fd() is readable.
    std::vector<std::vector<SocketAddress>> take();

private:
    sys::Fd done_;
    std::vector<std::vector<SocketAddress>> found_;
    std::jthread thread_;
};

/// Bound to all addresses, or only to loopback; port 0 takes a free one. Not listening yet:
/// connects are refused. Not open when the port is taken (or not ours to take).
sys::Fd bind_port(std::uint16_t port, bool loopback_only);
/// False when somebody else came first.
bool start_listening(int fd);
std::uint16_t bound_port(int fd);

/// A non-blocking connect in progress; `error` is set when it failed at once.
struct Dialling {
    sys::Fd fd;
    int error = 0;
};
Dialling dial(const SocketAddress& address);
/// How the connect ended: 0 or an errno.
int dial_result(int fd);
bool is_connected_to_itself(int fd);

}  // namespace ty::agent
