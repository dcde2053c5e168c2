// SPDX-License-Identifier: Apache-2.0
// TCP with deadlines. Descriptors are non-blocking inside: every call tries first and polls only
// when the kernel would make it wait, so that a busy keep-alive connection costs one system call
// per turn.
#include "sys/tcp.h"

#include "base/error.h"
#include "base/log.h"
#include "sys/waiting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace ty::sys {

namespace {

struct AddressDeleter {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressDeleter>;

Addresses resolve(const std::string& host, std::uint16_t port, int flags) {
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    addrinfo* list = nullptr;
    const std::string service = std::to_string(port);
    const int failed =
        ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &list);
    if (failed != 0) {
        throw_error(Code::unavailable, "UnresolvedHost", "cannot resolve host \"{}\": {}", host,
                    ::gai_strerror(failed));
    }
    return Addresses(list);
}

void set_no_delay(int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Wait or throw what the outcome means to a caller.
void await(int fd, Readiness readiness, Deadline by, const std::stop_token& stop,
           const char* what) {
    switch (wait(fd, readiness, by, stop)) {
        case Waited::ready:
            return;
        case Waited::timed_out:
            throw_error(Code::timed_out, "", "{}: the peer took too long", what);
        case Waited::stopped:
            throw_error(Code::cancelled, "", "{}: stopped", what);
    }
}

bool would_block(int number) {
    return number == EAGAIN || number == EWOULDBLOCK;
}

[[noreturn]] void throw_peer(int number, const char* what) {
    // Whatever the kernel says of an established connection, it means: this peer is gone.
    Error error = errno_error(number, what);
    if (error.code() == Code::unavailable) throw error;
    Error gone(Code::unavailable, "", error.message());
    gone.set_os_error(number);
    throw gone;
}

/// Gathered send until everything is out.
void send_all(int fd, std::span<const std::byte> first, std::span<const std::byte> second,
              int flags, Deadline by, const std::stop_token& stop) {
    while (!first.empty() || !second.empty()) {
        iovec parts[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                          {const_cast<std::byte*>(second.data()), second.size()}};
        msghdr message = {};
        message.msg_iov = first.empty() ? parts + 1 : parts;
        message.msg_iovlen = first.empty() || second.empty() ? 1 : 2;
        const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
        if (sent >= 0) {
            const std::size_t of_first = std::min(first.size(), static_cast<std::size_t>(sent));
            first = first.subspan(of_first);
            second = second.subspan(static_cast<std::size_t>(sent) - of_first);
            continue;
        }
        if (errno == EINTR) continue;
        if (!would_block(errno)) throw_peer(errno, "send");
        await(fd, Readiness::writable, by, stop, "send");
    }
}

/// 0, or the errno of the attempt.
int connect_one(int fd, const addrinfo& address, Deadline by, const std::stop_token& stop) {
    if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    switch (wait(fd, Readiness::writable, by, stop)) {
        case Waited::ready:
            break;
        case Waited::timed_out:
            return ETIMEDOUT;
        case Waited::stopped:
            return ECANCELED;
    }
    int failed = 0;
    socklen_t size = sizeof failed;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return errno;
    return failed;
}

}  // namespace

Socket Socket::connect_tcp(const std::string& host, std::uint16_t port, Deadline by,
                           const std::stop_token& stop) {
    const Addresses addresses = resolve(host, port, 0);
    int last = EADDRNOTAVAIL;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
        Fd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!fd.is_open()) {
            last = errno;
            continue;
        }
        last = connect_one(fd.get(), *address, by, stop);
        if (last == 0) {
            set_no_delay(fd.get());
            return Socket(std::move(fd));
        }
    }
    if (last == ECANCELED)
        throw_error(Code::cancelled, "", "connect to {}:{}: stopped", host, port);
    if (last == ETIMEDOUT) {
        throw_error(Code::timed_out, "", "connect to {}:{}: no answer in time", host, port);
    }
    throw_peer(last, format("connect to {}:{}", host, port).c_str());
}

std::size_t Socket::read(std::span<std::byte> into, Deadline by, const std::stop_token& stop) {
    while (true) {
        const ssize_t got = ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno == EINTR) continue;
        if (!would_block(errno)) throw_peer(errno, "receive");
        await(fd_.get(), Readiness::readable, by, stop, "receive");
    }
}

void Socket::write(std::span<const std::byte> data, Deadline by, const std::stop_token& stop) {
    send_all(fd_.get(), data, {}, 0, by, stop);
}

void Socket::write_parts(std::span<const std::byte> first, std::span<const std::byte> second,
                         Deadline by, const std::stop_token& stop) {
    send_all(fd_.get(), first, second, 0, by, stop);
}

void Socket::write_more(std::span<const std::byte> data, Deadline by, const std::stop_token& stop) {
    send_all(fd_.get(), data, {}, MSG_MORE, by, stop);
}

void Socket::send_file(int file, std::uint64_t offset, std::uint64_t length, Deadline by,
                       const std::stop_token& stop) {
    auto position = static_cast<off_t>(offset);
    while (length > 0) {
        const std::size_t step =
            static_cast<std::size_t>(std::min<std::uint64_t>(length, 1u << 20));
        const ssize_t sent = ::sendfile(fd_.get(), file, &position, step);
        if (sent > 0) {
            length -= static_cast<std::uint64_t>(sent);
            continue;
        }
        if (sent == 0) {
            throw_error(Code::corrupt, "", "file ended {} bytes before the announced length",
                        length);
        }
        if (errno == EINTR) continue;
        if (!would_block(errno)) throw_peer(errno, "send a file");
        await(fd_.get(), Readiness::writable, by, stop, "send a file");
    }
}

void Socket::shutdown_write() {
    ::shutdown(fd_.get(), SHUT_WR);
}

void Socket::shutdown_read() {
    ::shutdown(fd_.get(), SHUT_RD);
}

void Socket::shutdown_both() {
    ::shutdown(fd_.get(), SHUT_RDWR);
}

std::string Socket::peer() const {
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
    char host[NI_MAXHOST] = {};
    char port[NI_MAXSERV] = {};
    if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port,
                      sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return {};
    }
    return address.ss_family == AF_INET6 ? format("[{}]:{}", host, port)
                                         : format("{}:{}", host, port);
}

Listener Listener::tcp(const std::string& host, std::uint16_t port) {
    const Addresses addresses = resolve(host, port, AI_PASSIVE);
    int last = EADDRNOTAVAIL;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
        Fd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!fd.is_open()) {
            last = errno;
            continue;
        }
        const int on = 1;
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_storage bound = {};
        socklen_t size = sizeof bound;
        if (::bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 ||
            ::listen(fd.get(), 1024) != 0 ||
            ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
            last = errno;
            continue;
        }
        const std::uint16_t number = bound.ss_family == AF_INET6
                                         ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                         : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
        return Listener(std::move(fd), ntohs(number));
    }
    if (last == EADDRINUSE) {
        throw_error(Code::conflict, "AddressInUse",
                    "cannot listen on {}:{}: another program uses this port; stop it or choose "
                    "another port",
                    host, port);
    }
    throw errno_error(last, format("listen on {}:{}", host, port));
}

std::optional<Socket> Listener::accept(const std::stop_token& stop) {
    while (true) {
        if (stop.stop_requested()) return std::nullopt;
        Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd.is_open()) {
            set_no_delay(fd.get());
            return Socket(std::move(fd));
        }
        if (would_block(errno)) {
            if (wait(fd_.get(), Readiness::readable, Deadline::never(), stop) == Waited::stopped) {
                return std::nullopt;
            }
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log::warning("cannot accept connections for now", {{"error", std::strerror(errno)}});
            if (!pause(Deadline::in(milliseconds(100)), stop)) return std::nullopt;
            continue;
        }
        if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) throw_errno("accept");
        // Everything else (ECONNABORTED, EPERM of a firewall, ...) is about that one connection.
    }
}

}  // namespace ty::sys
