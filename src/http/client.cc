// SPDX-License-Identifier: Apache-2.0
// The keep-alive client: send a request, notice an early answer, read the response.
#include "base/error.h"
#include "base/text.h"
#include "http/body.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/stream.h"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>

namespace ty::http {

namespace {

constexpr std::size_t kInlineBody = 16u << 10;
constexpr std::size_t kPiece = 128u << 10;
constexpr std::size_t kHeadLimit = 256u << 10;
constexpr std::size_t kHeaderCount = 1000;
/// A response body without a sink is held in memory.
constexpr Bytes kBodyLimit = Bytes(1u << 30);
/// Servers that do not know "Expect: 100-continue" never answer it: then the body goes anyway.
constexpr seconds kContinueWait{1};

}  // namespace

struct Client::Impl {
    explicit Impl(Url url_in) : url(std::move(url_in)) {
        if (url.scheme != "http") {
            throw_error(Code::unsupported, "", "{}://{}: only http:// servers can be called",
                        url.scheme, url.host);
        }
        const bool v6 = url.host.find(':') != std::string::npos;
        const std::string host = v6 ? "[" + url.host + "]" : url.host;
        host_header = url.port == 80 ? host : format("{}:{}", host, url.port);
    }

    /// One request under way.
    struct Call {
        const ClientRequest& request;
        Deadline by;
        const std::stop_token& stop;
        const std::function<void(std::span<const std::byte>)>& sink;
        bool source_used = false;  ///< body_source was asked and cannot start again
        bool body_cut = false;     ///< the answer came before the whole body was sent
    };

    Url url;
    std::string host_header;
    sys::Socket socket;
    InputBuffer buffer;

    ClientResponse send(Call& call) {
        // A connection in the middle of something is good for nothing: gone until proven whole.
        bool reused = open_connection(call);
        while (true) {
            sys::Socket current = std::move(socket);
            try {
                return exchange(current, call);
            } catch (const Error& error) {
                if (!reused || !may_repeat(error, call)) throw in_words(error);
            }
            buffer = InputBuffer();
            socket = sys::Socket::connect_tcp(url.host, url.port, call.by, call.stop);
            reused = false;
            call.body_cut = false;
        }
    }

private:
    Error in_words(Error error) const {
        error.add_context(format("http://{}", host_header));
        return error;
    }

    /// True when the connection was used before.
    bool open_connection(const Call& call) {
        if (socket.is_open()) {
            char byte = 0;
            const ssize_t got = ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
            if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && buffer.empty()) return true;
        }
        buffer = InputBuffer();
        socket = sys::Socket::connect_tcp(url.host, url.port, call.by, call.stop);
        return false;
    }

    /// Nothing of an answer came on a connection the server may have closed meanwhile.
    bool may_repeat(const Error& error, const Call& call) const {
        const std::string& method = call.request.method;
        return error.code() == Code::unavailable && error.reason() == "StaleConnection" &&
               !call.source_used &&
               (method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE");
    }

    std::string head_of(const Call& call) const {
        const ClientRequest& request = call.request;
        const auto blank = [](char c) {
            return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
        };
        if (std::ranges::any_of(request.target, blank) ||
            std::ranges::any_of(request.method, blank)) {
            throw_error(Code::invalid, "",
                        "request \"{} {}\": a blank or control character; percent-encode it",
                        request.method, request.target);
        }
        std::string head = format("{} {}{} HTTP/1.1\r\n", request.method, url.path, request.target);
        if (!request.headers.contains("Host")) head += "Host: " + host_header + "\r\n";
        const bool has_body = request.body_source || !request.body.empty();
        for (const auto& [name, value] : request.headers) {
            if (equals_ignoring_case(name, "Content-Length")) continue;
            if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
                throw_error(Code::invalid, "", "request header {} holds a line break or zero byte",
                            name);
            }
            head += name + ": " + value + "\r\n";
        }
        if (has_body || request.method == "POST" || request.method == "PUT" ||
            request.method == "PATCH") {
            head += format("Content-Length: {}\r\n", body_length(request));
        }
        head += "\r\n";
        return head;
    }

    static std::uint64_t body_length(const ClientRequest& request) {
        return request.body_source ? request.content_length.value_or(0) : request.body.size();
    }

    ClientResponse exchange(sys::Socket& current, Call& call) {
        PlainStream stream(current, call.stop);
        const std::string head = head_of(call);
        std::optional<ResponseHead> early;
        try {
            const bool waits =
                call.request.headers.contains("Expect") && body_length(call.request) > 0;
            if (waits) {
                stream.write(as_bytes(head), {}, call.by);
                early = await_continue(stream, call);
                if (!early) send_body(current, call);
            } else if (!call.request.body_source && call.request.body.size() <= kInlineBody) {
                stream.write(as_bytes(head), as_bytes(call.request.body), call.by);
            } else {
                stream.write(as_bytes(head), {}, call.by);
                send_body(current, call);
            }
        } catch (const Error& error) {
            // The server closed its side while we were sending; its answer may be waiting for us.
            if (error.code() != Code::unavailable) throw;
            call.body_cut = true;
        }
        ResponseHead answer = early ? std::move(*early) : read_final_head(stream, call);
        return read_body(stream, current, std::move(answer), call);
    }

    /// nullopt: send the body. Otherwise the server's final word came first.
    std::optional<ResponseHead> await_continue(PlainStream& stream, Call& call) {
        const Deadline by = Deadline::earlier(call.by, Deadline::in(kContinueWait));
        try {
            ResponseHead head = read_one_head(stream, by);
            if (head.status < 200) return std::nullopt;
            call.body_cut = true;
            return head;
        } catch (const Error& error) {
            if (error.code() != Code::timed_out || call.by.passed()) throw;
            return std::nullopt;
        }
    }

    void send_body(sys::Socket& current, Call& call) {
        const ClientRequest& request = call.request;
        if (!request.body_source) {
            std::span<const std::byte> rest = as_bytes(request.body);
            while (!rest.empty() && !call.body_cut) {
                const auto piece = rest.first(std::min(rest.size(), kPiece));
                send_piece(current, piece, call);
                rest = rest.subspan(piece.size());
            }
            return;
        }
        if (!request.content_length) {
            throw_error(Code::internal, "", "a streamed request body needs its length in advance");
        }
        std::vector<std::byte> piece(kPiece);
        std::uint64_t left = *request.content_length;
        while (left > 0 && !call.body_cut) {
            call.source_used = true;
            const std::size_t want =
                static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
            const std::size_t got = request.body_source(std::span(piece).first(want));
            if (got == 0) {
                throw_error(Code::invalid, "IncompleteBody",
                            "the request body ended {} bytes before its announced length", left);
            }
            send_piece(current, std::span(piece).first(got), call);
            left -= got;
        }
    }

    /// Send all of it unless an answer arrives first.
    static void send_piece(sys::Socket& current, std::span<const std::byte> data, Call& call) {
        while (!data.empty()) {
            const ssize_t sent =
                ::send(current.fd(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0) {
                data = data.subspan(static_cast<std::size_t>(sent));
                continue;
            }
            if (errno == EINTR) continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                throw_error(Code::unavailable, "",
                            "the server closed the connection during the request");
            }
            char byte = 0;
            if (::recv(current.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
                call.body_cut = true;
                return;
            }
            switch (sys::wait(current.fd(), sys::Readiness::either, call.by, call.stop)) {
                case sys::Waited::ready:
                    break;
                case sys::Waited::timed_out:
                    throw_error(Code::timed_out, "",
                                "the server took too long to take the request body");
                case sys::Waited::stopped:
                    throw_error(Code::cancelled, "", "request stopped");
            }
        }
    }

    ResponseHead read_one_head(PlainStream& stream, Deadline by) {
        std::size_t scanned = 0;
        std::optional<std::size_t> end;
        while (!(end = find_head_end(buffer.view(), scanned))) {
            scanned = buffer.view().size();
            if (scanned >= kHeadLimit)
                throw_error(Code::invalid, "MalformedResponse", "the response head is too large");
            bool more = false;
            try {
                more = buffer.fill(stream, by, kHeadLimit);
            } catch (const Error& error) {
                if (error.code() != Code::unavailable || scanned > 0) throw;
                throw Error(Code::unavailable, "StaleConnection", error.message());
            }
            if (!more) {
                throw_error(Code::unavailable, scanned > 0 ? "" : "StaleConnection",
                            "the server closed the connection without an answer");
            }
        }
        ResponseHead head;
        const auto refusal = parse_response_head(buffer.view().substr(0, *end), kHeaderCount, head);
        buffer.consume(*end);
        if (refusal)
            throw_error(Code::invalid, "MalformedResponse", "malformed response: {}",
                        refusal->text);
        return head;
    }

    ResponseHead read_final_head(PlainStream& stream, const Call& call) {
        for (int interim = 0; interim < 100; ++interim) {
            ResponseHead head = read_one_head(stream, call.by);
            if (head.status >= 200) return head;
        }
        throw_error(Code::invalid, "MalformedResponse", "interim responses without end");
    }

    ClientResponse read_body(PlainStream& stream, sys::Socket& current, ResponseHead head,
                             const Call& call) {
        if (call.request.method == "HEAD") {
            head.framing = Framing{};
        }
        ClientResponse response;
        response.status = head.status;
        response.headers = std::move(head.headers);
        StreamBody body(stream, buffer, head.framing, Patience{.by = call.by});
        if (call.sink && head.status / 100 == 2) {
            std::vector<std::byte> piece(kPiece);
            while (const std::size_t got = body.read(piece)) call.sink(std::span(piece).first(got));
        } else {
            response.body = body.read_all(kBodyLimit);
        }
        if (head.keep_alive && !call.body_cut) socket = std::move(current);
        return response;
    }
};

Client::Client(Url url) : impl_(std::make_unique<Impl>(std::move(url))) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

ClientResponse Client::send(const ClientRequest& request, Deadline by, const std::stop_token& stop,
                            const std::function<void(std::span<const std::byte>)>& sink) {
    Impl::Call call{.request = request, .by = by, .stop = stop, .sink = sink};
    return impl_->send(call);
}

}  // namespace ty::http
