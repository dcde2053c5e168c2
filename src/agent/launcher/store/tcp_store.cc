// SPDX-License-Identifier: Apache-2.0
// Sockets of the store: one thread, level-triggered epoll. StoreCore knows what the bytes mean.
//
// Bounded: 16,384 connections; a connection that has not shown the magic number within 10 s is
// closed; while a client does not take its answers, no further request of it is read.
#include "agent/launcher/store/tcp_store.h"

#include "agent/launcher/store/store_core.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "sys/sys.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <unordered_map>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace ty::agent {

namespace {

constexpr std::size_t kMaxConnections = 16'384;
constexpr std::size_t kReadSize = std::size_t(256) << 10;
constexpr milliseconds kHandshake{10'000};
constexpr milliseconds kAcceptPause{100};  ///< after the kernel ran out of descriptors
constexpr std::uint64_t kListenTag = 0, kWakeTag = 1;

struct AddressDeleter {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// Empty host: all addresses, of both families where there is IPv6.
sys::Fd listen_on(const std::string& host, std::uint16_t port) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
    addrinfo* list = nullptr;
    const char* const name = host.empty() ? "::" : host.c_str();
    if (const int failed = ::getaddrinfo(name, std::to_string(port).c_str(), &hints, &list)) {
        throw_error(Code::unavailable, "UnresolvedHost", "cannot resolve host \"{}\": {}", host,
                    ::gai_strerror(failed));
    }
    const std::unique_ptr<addrinfo, AddressDeleter> addresses(list);
    sys::Fd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.is_open() && host.empty() && errno == EAFNOSUPPORT) return listen_on("0.0.0.0", port);
    if (!fd.is_open()) throw_errno("create a socket for the store");
    const int on = 1, off = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (list->ai_family == AF_INET6)
        ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), 4096) != 0) {
        if (errno == EADDRINUSE) {
            throw_error(Code::conflict, "AddressInUse",
                        "{}:{} is in use; end its owner or take another port", host, port);
        }
        throw_errno("listen on {}:{}", host, port);
    }
    return fd;
}

std::uint16_t port_of(int fd) {
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw_errno("name of the store's socket");
    const in_port_t port = address.ss_family == AF_INET6
                               ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                               : reinterpret_cast<const sockaddr_in&>(address).sin_port;
    return ntohs(port);
}

}  // namespace

struct TcpStore::State {
    struct Connection {
        sys::Fd fd;
        std::string input, output;
        std::size_t wanted = 1;  ///< bytes of input that make another try worthwhile
        std::size_t sent = 0;    ///< of output
        std::uint32_t events = EPOLLIN;
    };

    // Constant after construction.
    sys::Fd listener;
    sys::Fd epoll;
    std::uint16_t port = 0;
    // Own synchronisation.
    sys::WakeFd wake;
    std::atomic<std::size_t> keys{0}, connection_count{0};
    // Of the thread.
    StoreCore core;
    std::unordered_map<StoreCore::ClientId, Connection> connections;
    StoreCore::ClientId next_id = kWakeTag + 1;
    std::map<StoreCore::ClientId, Deadline> unproven;  ///< in order of arrival, so of deadline
    Deadline accept_again = Deadline::never();
    bool warned = false;
    TaskGroup tasks;  ///< last: joined before the rest goes

    State(const std::string& host, std::uint16_t wanted_port);
    void watch(int operation, int fd, std::uint32_t events, std::uint64_t tag);
    void run(const std::stop_token& stop);
    Deadline housekeeping();
    void accept_all();
    void serve(StoreCore::ClientId id, std::uint32_t events);
    bool receive(StoreCore::ClientId id, Connection& connection);
    bool work(StoreCore::ClientId id, Connection& connection);
    bool flush(Connection& connection);
    void distribute(std::vector<StoreCore::ClientId>& broken);
    void adjust(StoreCore::ClientId id, Connection& connection);
    void close(StoreCore::ClientId id);
};

TcpStore::State::State(const std::string& host, std::uint16_t wanted_port)
    : listener(listen_on(host, wanted_port)),
      epoll(::epoll_create1(EPOLL_CLOEXEC)),
      port(port_of(listener.get())) {
    if (!epoll.is_open()) throw_errno("create an epoll descriptor");
    watch(EPOLL_CTL_ADD, listener.get(), EPOLLIN, kListenTag);
    watch(EPOLL_CTL_ADD, wake.fd(), EPOLLIN, kWakeTag);
    tasks.start("tcp-store", [this](const std::stop_token& stop) { run(stop); });
}

void TcpStore::State::watch(int operation, int fd, std::uint32_t events, std::uint64_t tag) {
    epoll_event event = {};
    event.events = events;
    event.data.u64 = tag;
    if (::epoll_ctl(epoll.get(), operation, fd, &event) != 0) throw_errno("watch a connection");
}

void TcpStore::State::run(const std::stop_token& stop) {
    const std::stop_callback on_stop(stop, [this] { wake.notify(); });
    std::array<epoll_event, 256> events;
    while (!stop.stop_requested()) {
        const int timeout = housekeeping().poll_timeout();
        const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), timeout);
        if (count < 0 && errno != EINTR) throw_errno("wait for the store's clients");
        for (int i = 0; i < count; ++i) {
            const epoll_event& event = events[static_cast<std::size_t>(i)];
            if (event.data.u64 == kListenTag)
                accept_all();
            else if (event.data.u64 > kWakeTag)
                serve(event.data.u64, event.events);
        }
        keys = core.keys();
        connection_count = connections.size();
    }
}

/// Returns when to look again.
Deadline TcpStore::State::housekeeping() {
    if (accept_again.passed()) {
        accept_again = Deadline::never();
        watch(EPOLL_CTL_MOD, listener.get(), EPOLLIN, kListenTag);
    }
    while (!unproven.empty()) {
        const auto [id, by] = *unproven.begin();
        if (connections.contains(id) && !core.is_validated(id)) {
            if (!by.passed()) return Deadline::earlier(by, accept_again);
            close(id);
        }
        unproven.erase(id);
    }
    return accept_again;
}

void TcpStore::State::accept_all() {
    while (true) {
        sys::Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd.is_open()) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN) return;
            // Out of descriptors or memory: leave the rest in the backlog for a moment.
            accept_again = Deadline::in(kAcceptPause);
            watch(EPOLL_CTL_MOD, listener.get(), 0, kListenTag);
            return;
        }
        if (connections.size() >= kMaxConnections) continue;  // closes it
        const int on = 1;
        ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        const StoreCore::ClientId id = next_id++;
        watch(EPOLL_CTL_ADD, fd.get(), EPOLLIN, id);
        connections[id].fd = std::move(fd);
        unproven.emplace(id, Deadline::in(kHandshake));
        core.add_client(id);
    }
}

void TcpStore::State::serve(StoreCore::ClientId id, std::uint32_t events) {
    const auto found = connections.find(id);
    if (found == connections.end()) return;  // closed earlier in this round
    Connection& connection = found->second;
    bool alive = (events & EPOLLERR) == 0;
    if (alive && (events & (EPOLLIN | EPOLLHUP)) != 0) alive = receive(id, connection);
    if (alive && (events & EPOLLOUT) != 0) alive = flush(connection) && work(id, connection);
    if (alive) adjust(id, connection);
    // An answer may be for somebody else, and sending it may show that they are gone.
    std::vector<StoreCore::ClientId> broken;
    if (!alive) broken.push_back(id);
    distribute(broken);
    for (const StoreCore::ClientId gone : broken) close(gone);
}

/// False when the connection is over.
bool TcpStore::State::receive(StoreCore::ClientId id, Connection& connection) {
    if (!connection.output.empty()) return true;
    const std::size_t before = connection.input.size();
    connection.input.resize(before + kReadSize);
    ssize_t got = -1;
    do got = ::recv(connection.fd.get(), connection.input.data() + before, kReadSize, 0);
    while (got < 0 && errno == EINTR);
    const bool nothing_yet = got < 0 && errno == EAGAIN;
    connection.input.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (nothing_yet) return true;
    return got > 0 && work(id, connection);
}

/// Serves complete requests as long as their answers are taken.
bool TcpStore::State::work(StoreCore::ClientId id, Connection& connection) {
    std::size_t used = 0;
    while (connection.output.empty() && connection.input.size() - used >= connection.wanted) {
        const StoreCore::Step step = core.step(id, std::string_view(connection.input).substr(used));
        if (step.kind == StoreCore::Step::Kind::refuse) {
            if (!std::exchange(warned, true))
                log::warning("the store closed a connection; further ones are not logged",
                             {{"port", port}, {"why", step.why}});
            return false;
        }
        connection.wanted = step.kind == StoreCore::Step::Kind::more ? step.bytes : 1;
        if (step.kind == StoreCore::Step::Kind::more) break;
        used += step.bytes;
        std::vector<StoreCore::ClientId> broken;
        distribute(broken);
        const bool is_broken = std::erase(broken, id) != 0;
        for (const StoreCore::ClientId gone : broken) close(gone);
        if (is_broken) return false;
    }
    connection.input.erase(0, used);
    if (connection.input.empty() && connection.input.capacity() > 4 * kReadSize)
        connection.input.shrink_to_fit();
    return true;
}

/// Hands out what the last requests brought, at once where the kernel takes it.
void TcpStore::State::distribute(std::vector<StoreCore::ClientId>& broken) {
    for (auto& [id, text] : core.take_answers()) {
        const auto found = connections.find(id);
        if (found == connections.end()) continue;
        if (found->second.output.empty())
            found->second.output = std::move(text);
        else
            found->second.output += text;
        if (!flush(found->second))
            broken.push_back(id);
        else
            adjust(id, found->second);
    }
}

bool TcpStore::State::flush(Connection& connection) {
    std::string& out = connection.output;
    while (connection.sent < out.size()) {
        const ssize_t count = ::send(connection.fd.get(), out.data() + connection.sent,
                                     out.size() - connection.sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno == EAGAIN;
        connection.sent += static_cast<std::size_t>(count);
    }
    out.clear();
    if (out.capacity() > kReadSize) out.shrink_to_fit();
    connection.sent = 0;
    return true;
}

void TcpStore::State::adjust(StoreCore::ClientId id, Connection& connection) {
    const std::uint32_t events = connection.output.empty() ? EPOLLIN : EPOLLOUT;
    if (events == std::exchange(connection.events, events)) return;
    watch(EPOLL_CTL_MOD, connection.fd.get(), events, id);
}

void TcpStore::State::close(StoreCore::ClientId id) {
    core.remove_client(id);
    connections.erase(id);
}

TcpStore::TcpStore(const std::string& host, std::uint16_t port)
    : state_(std::make_unique<State>(host, port)) {}

TcpStore::~TcpStore() = default;

std::uint16_t TcpStore::port() const {
    return state_->port;
}

std::size_t TcpStore::keys() const {
    return state_->keys;
}

std::size_t TcpStore::connections() const {
    return state_->connection_count;
}

}  // namespace ty::agent
