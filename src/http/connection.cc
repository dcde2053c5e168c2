// SPDX-License-Identifier: Apache-2.0
// The request loop: head, handler, response, and what to do with a body nobody read.
#include "http/connection.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "http/response.h"

#include <algorithm>

namespace ty::http {

namespace {

/// An unread rest of a body up to this size is read and forgotten to keep the connection.
constexpr std::uint64_t kDrainLimit = 64u << 10;
/// Bodies up to this size travel in the same buffer as their head.
constexpr std::size_t kInlineBody = 16u << 10;
/// How long a client that is still sending may take to notice that its answer has come.
constexpr seconds kLinger{2};

std::string_view connection_header(const RequestHead& head, bool keep) {
    if (!keep) return "close";
    return head.http10 ? "keep-alive" : "";
}

Response failure(int status, std::string_view text) {
    Response response;
    response.status = status;
    response.headers.add("Content-Type", "text/plain; charset=utf-8");
    response.body = std::string(text) + "\n";
    return response;
}

}  // namespace

Connection::Connection(ConnectionContext context, sys::Socket socket, bool overload)
    : context_(context), overload_(overload), peer_(socket.peer()), socket_(std::move(socket)) {}

void Connection::close() {
    socket_.shutdown_both();  // seen by the client even while the hang-up poll holds the socket
    socket_.close();
}

void Connection::run() noexcept {
    try {
        PlainStream stream(socket_);
        InputBuffer buffer;
        serve(stream, buffer, false);
    } catch (const Error& error) {
        // A peer that went away or fell silent is everyday life.
        log::debug("connection ended", {{"peer", peer_}, {"error", error.what()}});
    } catch (const std::exception& error) {
        log::error("connection failed", {{"peer", peer_}, {"error", error.what()}});
    }
}

void Connection::serve(Stream& stream, InputBuffer& buffer, bool tls) {
    while (!stop_.stop_requested()) {
        RequestHead head;
        if (!read_head(stream, buffer, head)) return;
        if (overload_) {
            return refuse(stream, {503, format("all {} connections are in use; try again later",
                                               context_.options.limits.connections)});
        }
        if (head.method == "CONNECT" && !tls) return serve_connect(stream, buffer, head);
        if (!exchange(stream, buffer, head, tls)) return;
    }
}

bool Connection::read_head(Stream& stream, InputBuffer& buffer, RequestHead& head) {
    const Limits& limits = context_.options.limits;
    const std::size_t limit = static_cast<std::size_t>(limits.head.count());
    std::optional<std::size_t> end;
    std::size_t scanned = 0;
    Deadline by = Deadline::in(limits.idle);
    bool started = false;
    while (true) {
        // Some clients end a body with one CRLF too many.
        while (buffer.view().starts_with("\r\n")) buffer.consume(2);
        end = find_head_end(buffer.view(), scanned);
        if (end) break;
        scanned = buffer.view().size();
        if (scanned >= limit) {
            refuse(stream,
                   {431, format("the request head is larger than {}", to_string(limits.head))});
            return false;
        }
        if (!started && !buffer.empty()) {
            started = true;
            by = Deadline::in(limits.header_timeout);
        }
        try {
            if (!buffer.fill(stream, by, limit)) return false;
        } catch (const Error& error) {
            if (error.code() != Code::timed_out || !started) throw;
            refuse(stream, {408, format("the request head took longer than {} seconds",
                                        limits.header_timeout.count())});
            return false;
        }
    }
    std::optional<Refusal> refusal;
    if (*end > limit) {
        refusal =
            Refusal{431, format("the request head is larger than {}", to_string(limits.head))};
    } else {
        refusal = parse_request_head(buffer.view().substr(0, *end), limits.header_count, head);
    }
    buffer.consume(*end);
    if (refusal) refuse(stream, *refusal);
    return !refusal;
}

bool Connection::exchange(Stream& stream, InputBuffer& buffer, RequestHead& head, bool tls) {
    const milliseconds stall = context_.options.limits.body_stall;
    StreamBody body(stream, buffer, head.framing, Patience{.stall = stall});
    if (head.expects_continue && !body.is_finished() && buffer.empty()) {
        body.on_first_read([&stream, stall] {
            stream.write(as_bytes("HTTP/1.1 100 Continue\r\n\r\n"), {}, Deadline::in(stall));
        });
    }
    Request request{.method = head.method,
                    .path = std::move(head.path),
                    .query = std::move(head.query),
                    .headers = std::move(head.headers),
                    .body = &body,
                    .tls = tls,
                    .peer = peer_,
                    .stop = stop_.get_token()};
    std::optional<Response> response = call_handler(request, body);
    if (!response) return false;

    bool keep = head.keep_alive && !stop_.stop_requested() && body.can_drain(kDrainLimit);
    if (const auto wish = response->headers.find("Connection")) {
        keep = keep && !equals_ignoring_case(*wish, "close");
    }
    if (response->stream && head.http10 && !response->headers.contains("Content-Length"))
        keep = false;
    if (!write_response(stream, *response, head, keep)) return false;
    if (body.is_finished()) return keep;
    if (keep && body.drain(kDrainLimit)) return true;
    linger(stream);
    return false;
}

std::optional<Response> Connection::call_handler(Request& request, const StreamBody& body) {
    try {
        return context_.handler(request);
    } catch (const Error& error) {
        if (error.reason() == "EntityTooLarge") return failure(413, error.what());
        if (body.has_failed()) {
            if (error.code() == Code::invalid) return failure(400, error.what());
            if (error.code() == Code::timed_out) return failure(408, error.what());
            log::debug("client went away", {{"peer", peer_}, {"error", error.what()}});
            return std::nullopt;
        }
        log::error("handler failed", {{"method", request.method},
                                      {"path", request.path},
                                      {"code", to_string(error.code())},
                                      {"error", error.what()}});
    } catch (const std::exception& error) {
        log::error("handler failed",
                   {{"method", request.method}, {"path", request.path}, {"error", error.what()}});
    }
    return failure(500, "internal error; the server's log has the details");
}

bool Connection::write_response(Stream& stream, Response& response, const RequestHead& head,
                                bool keep) {
    const milliseconds stall = context_.options.limits.body_stall;
    const bool is_head = head.method == "HEAD";
    const bool bodyless = response.status < 200 || response.status == 204 || response.status == 304;
    Outgoing outgoing;
    if (bodyless || (response.head_only && is_head)) {
        outgoing.kind = Outgoing::Kind::nothing;
    } else if (response.head_only) {
        outgoing.kind =
            Outgoing::Kind::length;  // a GET whose handler gave no body has an empty one
    } else if (response.file) {
        outgoing = {Outgoing::Kind::length, response.file->length};
    } else if (response.stream) {
        if (const auto length = response.headers.find("Content-Length")) {
            outgoing = {Outgoing::Kind::length,
                        static_cast<std::uint64_t>(std::max(0LL, parse_int(*length).value_or(0)))};
        } else {
            outgoing.kind = head.http10 ? Outgoing::Kind::until_close : Outgoing::Kind::chunked;
        }
    } else {
        outgoing = {Outgoing::Kind::length, response.body.size()};
    }
    if (response.status == 204) response.headers.remove("Content-Length");

    out_.clear();
    append_response_head(out_, response.status, response.headers, outgoing,
                         connection_header(head, keep), date());
    if (is_head || bodyless || response.head_only || outgoing.kind == Outgoing::Kind::nothing) {
        stream.write(as_bytes(out_), {}, Deadline::in(stall));
        return true;
    }
    if (response.file) {
        const FileBody& file = *response.file;
        stream.send_file(as_bytes(out_), file.file.get(), file.offset, file.length, stall);
        return true;
    }
    if (!response.stream) {
        if (response.body.size() <= kInlineBody) {
            out_ += response.body;
            stream.write(as_bytes(out_), {}, Deadline::in(stall));
        } else {
            write_in_pieces(stream, as_bytes(out_), as_bytes(response.body), stall);
        }
        return true;
    }
    stream.write(as_bytes(out_), {}, Deadline::in(stall));
    const HangupWatch::Entry watched(context_.hangups, socket_.fd(), stop_);
    StreamWriter writer(stream, outgoing, stall);
    try {
        response.stream(writer);
        writer.finish();
        return true;
    } catch (const Error& error) {
        // The head is out: breaking the connection is the only way left to say that this failed.
        if (error.code() == Code::internal || error.code() == Code::corrupt) {
            log::error("streamed response failed", {{"peer", peer_}, {"error", error.what()}});
        } else {
            log::debug("streamed response ended early", {{"peer", peer_}, {"error", error.what()}});
        }
    }
    return false;
}

void Connection::refuse(Stream& stream, const Refusal& refusal) {
    stream.write(as_bytes(plain_response(refusal.status, refusal.text)), {}, Deadline::in(kLinger));
    linger(stream);
}

/// Closing a socket with unread bytes resets it, and a reset can destroy the answer before the
/// client has read it: say that nothing more comes and read on for a moment.
void Connection::linger(Stream& stream) {
    stream.finish();
    const Deadline by = Deadline::in(kLinger);
    std::byte sink[16384];
    try {
        while (!stop_.stop_requested() && !by.passed() && stream.read(sink, by) > 0) continue;
    } catch (const Error&) {
        // The client closed or fell silent: either is the end we wait for.
    }
}

const std::string& Connection::date() {
    const Instant now = SystemClock().now();
    const long long second = to_epoch_millis(now) / 1000;
    if (second != date_second_) {
        date_ = format_http_date(now);
        date_second_ = second;
    }
    return date_;
}

}  // namespace ty::http
