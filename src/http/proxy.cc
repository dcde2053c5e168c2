// SPDX-License-Identifier: Apache-2.0
// CONNECT: refused, answered here through TLS, or passed on as bytes.
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "http/connection.h"
#include "http/response.h"
#include "http/tls.h"

#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

namespace ty::http {

namespace {

constexpr std::string_view kEstablished = "HTTP/1.1 200 Connection established\r\n\r\n";
constexpr seconds kConnectTimeout{10};
/// Intercepted clients must finish their handshake in this time.
constexpr seconds kHandshakeTimeout{20};

/// One direction of a tunnel: read from one socket, write to the other, without ever blocking.
class Flow {
public:
    Flow(int from, int to, std::string_view early) : from_(from), to_(to) {
        held_.assign(early.begin(), early.end());
        end_ = held_.size();
        if (held_.size() < kCapacity) held_.resize(kCapacity);
    }
    bool is_over() const { return eof_ && begin_ == end_; }
    bool wants_read() const { return !eof_ && begin_ == end_; }
    bool wants_write() const { return begin_ != end_; }

    /// Move what can be moved now. Throws unavailable when a side is gone.
    bool pump() {
        bool moved = false;
        if (wants_read()) {
            const ssize_t got = ::recv(from_, held_.data(), held_.size(), MSG_DONTWAIT);
            if (got > 0) {
                begin_ = 0;
                end_ = static_cast<std::size_t>(got);
                moved = true;
            } else if (got == 0) {
                eof_ = true;
                moved = true;
                ::shutdown(to_, SHUT_WR);
            } else {
                check("receive from the tunnel");
            }
        }
        if (wants_write()) {
            const ssize_t sent =
                ::send(to_, held_.data() + begin_, end_ - begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent >= 0) {
                begin_ += static_cast<std::size_t>(sent);
                moved = moved || sent > 0;
            } else {
                check("send into the tunnel");
            }
        }
        return moved;
    }

private:
    static constexpr std::size_t kCapacity = 64u << 10;

    static void check(const char* what) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) throw_errno("{}", what);
    }

    int from_;
    int to_;
    std::vector<char> held_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    bool eof_ = false;
};

/// Copy both ways until both sides are done, nothing moves for `idle`, or stop.
void copy_both_ways(int client, int upstream, std::string_view early, milliseconds idle,
                    const std::stop_token& stop) {
    Flow up(client, upstream, early);
    Flow down(upstream, client, {});
    sys::WakeFd wake;
    const std::stop_callback on_stop(stop, [&wake] { wake.notify(); });
    Deadline by = Deadline::in(idle);
    const auto events = [](const Flow& reader, const Flow& writer) {
        return static_cast<short>((reader.wants_read() ? POLLIN : 0) |
                                  (writer.wants_write() ? POLLOUT : 0));
    };
    while (!(up.is_over() && down.is_over()) && !stop.stop_requested()) {
        const bool up_moved = up.pump();
        const bool down_moved = down.pump();
        if (up_moved || down_moved) {
            by = Deadline::in(idle);
            continue;
        }
        if (by.passed()) return;
        // A socket with nothing asked of it is left out: its hang-up would be reported for ever.
        const short of_client = events(up, down);
        const short of_upstream = events(down, up);
        pollfd fds[3] = {{of_client != 0 ? client : -1, of_client, 0},
                         {of_upstream != 0 ? upstream : -1, of_upstream, 0},
                         {wake.fd(), POLLIN, 0}};
        if (::poll(fds, 3, by.poll_timeout()) < 0 && errno != EINTR) throw_errno("poll a tunnel");
    }
}

}  // namespace

void Connection::serve_connect(Stream& stream, InputBuffer& buffer, const RequestHead& head) {
    const std::optional<HostPort> target = parse_host_port(head.authority);
    if (!target) return refuse(stream, {400, "CONNECT needs host:port"});
    if (!context_.options.on_connect) return refuse(stream, {405, "CONNECT is not offered here"});
    using Connect = ServerOptions::Connect;
    Connect decision = Connect::refuse;
    try {
        decision = context_.options.on_connect(target->host, target->port);
    } catch (const std::exception& error) {
        log::error("deciding on CONNECT failed", {{"host", target->host}, {"error", error.what()}});
        return refuse(stream, {500, "internal error; the server's log has the details"});
    }
    if (decision == Connect::intercept && !context_.options.authority) decision = Connect::refuse;
    switch (decision) {
        case Connect::refuse:
            return refuse(stream,
                          {403, format("connections to {}:{} are not allowed through this proxy",
                                       target->host, target->port)});
        case Connect::intercept:
            return intercept(stream, buffer, target->host);
        case Connect::tunnel:
            return tunnel(stream, buffer, *target);
    }
}

void Connection::intercept(Stream& stream, InputBuffer& buffer, const std::string& host) {
    // The certificate is made before the promise to speak for the host.
    const std::shared_ptr<TlsContext> context = context_.options.authority->context_for(host);
    stream.write(as_bytes(kEstablished), {}, Deadline::in(context_.options.limits.body_stall));
    const std::string early(buffer.view());
    buffer.consume(early.size());
    const std::unique_ptr<Stream> tls =
        context->accept(stream, early, Deadline::in(kHandshakeTimeout));
    InputBuffer decrypted;
    serve(*tls, decrypted, true);
    tls->finish();
}

void Connection::tunnel(Stream& stream, InputBuffer& buffer, const HostPort& target) {
    sys::Socket upstream;
    try {
        upstream = sys::Socket::connect_tcp(target.host, target.port, Deadline::in(kConnectTimeout),
                                            stop_.get_token());
    } catch (const Error& error) {
        return refuse(stream, {error.code() == Code::timed_out ? 504 : 502, error.what()});
    }
    stream.write(as_bytes(kEstablished), {}, Deadline::in(context_.options.limits.body_stall));
    const std::string early(buffer.view());
    buffer.consume(early.size());
    copy_both_ways(socket_.fd(), upstream.fd(), early, context_.options.limits.idle,
                   stop_.get_token());
}

}  // namespace ty::http
