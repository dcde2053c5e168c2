// SPDX-License-Identifier: Apache-2.0
// Accepting, counting and stopping connections.
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/connection.h"
#include "http/http.h"
#include "http/response.h"

#include <set>
#include <vector>

namespace ty::http {

namespace {

/// Connections over the limit that are still given a thread to read their request and say 503
/// properly; beyond, they are dropped with a best effort answer.
constexpr std::size_t kRefusing = 32;
/// How long responses on their way may still take when the server stops.
constexpr seconds kGrace{5};

}  // namespace

struct Server::Impl {
    Impl(sys::Listener listener_in, Handler handler_in, ServerOptions options_in)
        : listener(std::move(listener_in)),
          handler(std::move(handler_in)),
          options(std::move(options_in)) {
        acceptor.start("http-accept", [this](std::stop_token stop) { accept_all(stop); });
    }

    ~Impl() {
        acceptor.stop_and_join();
        // Callbacks of the stop run on this thread: outside the lock.
        for (std::stop_source& stop : stop_sources()) stop.request_stop();
        open.with([](std::set<Connection*>& all) {
            for (Connection* connection : all) connection->end_input();
        });
        open.wait(
            Deadline::in(kGrace), {}, [](const std::set<Connection*>& all) { return all.empty(); },
            [](std::set<Connection*>& all) {
                for (Connection* connection : all) connection->abort();
            });
        threads.stop_and_join();
    }

    std::vector<std::stop_source> stop_sources() {
        return open.with([](const std::set<Connection*>& all) {
            std::vector<std::stop_source> sources;
            for (const Connection* connection : all) sources.push_back(connection->stop_source());
            return sources;
        });
    }

    void accept_all(const std::stop_token& stop) {
        while (std::optional<sys::Socket> socket = listener.accept(stop)) {
            const std::size_t count = open.with([](const auto& all) { return all.size(); });
            if (count >= options.limits.connections + kRefusing) {
                drop(*socket);
                continue;
            }
            const bool overload = count >= options.limits.connections;
            start(std::make_shared<Connection>(ConnectionContext{handler, options, hangups},
                                               std::move(*socket), overload));
        }
    }

    void start(const std::shared_ptr<Connection>& connection) {
        // Registered before its thread runs: a stopping server never misses one.
        open.with([&](std::set<Connection*>& all) { all.insert(connection.get()); });
        try {
            threads.start("http", [this, connection](const std::stop_token&) {
                connection->run();
                finish(*connection);
            });
        } catch (const std::exception& error) {
            log::warning("cannot serve a connection", {{"error", error.what()}});
            finish(*connection);
        }
    }

    /// Out of the register first: end_input() must not meet a closed descriptor.
    void finish(Connection& connection) {
        open.with([&](std::set<Connection*>& all) { all.erase(&connection); });
        connection.close();
        open.notify();
    }

    static void drop(sys::Socket& socket) {
        try {
            socket.write(as_bytes(plain_response(503, "too many connections; try again later")),
                         Deadline::in(seconds(0)));
        } catch (const Error&) {
            // The client learns by the close.
        }
    }

    // Immutable after construction.
    sys::Listener listener;
    const Handler handler;
    const ServerOptions options;
    // Own synchronisation.
    Sync<std::set<Connection*>> open;
    HangupWatch hangups;
    TaskGroup threads;
    TaskGroup acceptor;
};

Server::Server(sys::Listener listener, Handler handler, ServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(handler), std::move(options))) {}

Server::~Server() = default;

std::uint16_t Server::port() const {
    return impl_->listener.port();
}

std::size_t Server::connections() const {
    return impl_->open.with([](const auto& all) { return all.size(); });
}

}  // namespace ty::http
