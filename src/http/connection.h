// SPDX-License-Identifier: Apache-2.0
// One accepted connection, served on its own thread until it closes. Private to http.
#pragma once

#include "base/sync.h"
#include "http/body.h"
#include "http/hangup.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/stream.h"

#include <functional>
#include <stop_token>
#include <string>

namespace ty::http {

/// What all connections of a server share; outlives them.
struct ConnectionContext {
    const Handler& handler;
    const ServerOptions& options;
    HangupWatch& hangups;
};

class Connection {
public:
    /// `overload`: answer the first request with 503 and close.
    Connection(ConnectionContext context, sys::Socket socket, bool overload);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Blocks until the connection is over. Never throws.
    void run() noexcept;
    void close();

    /// Its request tells the running handler; end_input() wakes idle waits. From any thread.
    std::stop_source stop_source() const { return stop_; }
    /// From another thread, not later than close(): nothing more is read.
    void end_input() { socket_.shutdown_read(); }
    /// As end_input(), and cut off a response on its way.
    void abort() { socket_.shutdown_both(); }

private:
    void serve(Stream& stream, InputBuffer& buffer, bool tls);
    bool read_head(Stream& stream, InputBuffer& buffer, RequestHead& head);
    bool exchange(Stream& stream, InputBuffer& buffer, RequestHead& head, bool tls);
    std::optional<Response> call_handler(Request& request, const StreamBody& body);
    /// False when the response could not be completed.
    bool write_response(Stream& stream, Response& response, const RequestHead& head, bool keep);
    void refuse(Stream& stream, const Refusal& refusal);
    void linger(Stream& stream);
    void serve_connect(Stream& stream, InputBuffer& buffer, const RequestHead& head);
    void intercept(Stream& stream, InputBuffer& buffer, const std::string& host);
    void tunnel(Stream& stream, InputBuffer& buffer, const HostPort& target);
    const std::string& date();

    // Immutable after construction.
    const ConnectionContext context_;
    const bool overload_;
    std::string peer_;
    // Own synchronisation.
    std::stop_source stop_;
    // The thread in run(); the descriptor number is stable until close().
    sys::Socket socket_;
    std::string out_;
    std::string date_;
    long long date_second_ = -1;
};

}  // namespace ty::http
