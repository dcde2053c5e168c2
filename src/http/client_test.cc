// SPDX-License-Identifier: Apache-2.0
// The client against servers of its own kind and against scripted ones that misbehave.
#include "base/error.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/http.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>

using namespace ty;
using namespace ty::http;

namespace {

Deadline soon() {
    return Deadline::in(seconds(20));
}

Url url_of(std::uint16_t port) {
    return parse_url(format("http://127.0.0.1:{}/prefix", port));
}

/// Accepts one connection per script, in order, and runs it there.
class Scripted {
public:
    using Script = std::function<void(sys::Socket&)>;
    explicit Scripted(std::vector<Script> scripts)
        : listener_(sys::Listener::tcp("127.0.0.1", 0)),
          thread_([this, scripts](std::stop_token stop) {
              for (const Script& script : scripts) {
                  auto socket = listener_.accept(stop);
                  if (!socket) return;
                  try {
                      script(*socket);
                  } catch (const Error&) {
                      // The client may leave whenever it likes.
                  }
              }
          }) {}
    std::uint16_t port() const { return listener_.port(); }

private:
    sys::Listener listener_;
    std::jthread thread_;
};

std::string receive_head(sys::Socket& socket) {
    std::string head;
    std::byte byte;
    while (!head.ends_with("\r\n\r\n") && socket.read(std::span(&byte, 1), soon()) == 1) {
        head += static_cast<char>(byte);
    }
    return head;
}

Scripted::Script answer(std::string response) {
    return [response](sys::Socket& socket) {
        receive_head(socket);
        socket.write(as_bytes(response), soon());
    };
}

std::unique_ptr<Server> echo_server() {
    return std::make_unique<Server>(sys::Listener::tcp("127.0.0.1", 0), [](Request& request) {
        Response response;
        response.headers.add("X-Host", std::string(request.headers.get("Host")));
        response.headers.add("X-Length",
                             std::string(request.headers.get("Content-Length", "none")));
        response.headers.add("X-Path", request.path);
        response.body = request.body->read_all(Bytes(64u << 20));
        return response;
    });
}

template <typename Fn>
Error failure_of(Fn&& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error;
    }
    return Error(Code::internal, "", "nothing failed");
}

}  // namespace

TEST_CASE("a request carries prefix, host and length, and the connection is used again") {
    const auto server = echo_server();
    Client client(url_of(server->port()));
    for (int i = 0; i < 3; ++i) {
        const ClientResponse response =
            client.send({.method = "POST", .target = "/x", .body = "abc"}, soon());
        CHECK(response.status == 200);
        CHECK(response.body == "abc");
        CHECK(response.headers.get("x-path") == "/prefix/x");
        CHECK(response.headers.get("x-host") == format("127.0.0.1:{}", server->port()));
        CHECK(response.headers.get("x-length") == "3");
    }
    CHECK(client.send({.target = "/x"}, soon()).headers.get("x-length") == "none");
    CHECK(client.send({.method = "POST"}, soon()).headers.get("x-length") == "0");
    CHECK(server->connections() == 1);
}

TEST_CASE("a body from a source is streamed up and a response is streamed into a sink") {
    const auto server = echo_server();
    Client client(url_of(server->port()));
    const std::string content = [] {
        std::string text;
        for (int i = 0; i < 3000000; ++i) text += static_cast<char>('a' + i % 25);
        return text;
    }();
    std::size_t sent = 0;
    ClientRequest request{.method = "PUT", .target = "/x"};
    request.body_source = [&](std::span<std::byte> into) {
        const std::size_t count =
            std::min<std::size_t>({into.size(), content.size() - sent, 100001});
        std::copy_n(as_bytes(content).begin() + static_cast<std::ptrdiff_t>(sent), count,
                    into.begin());
        sent += count;
        return count;
    };
    request.content_length = content.size();
    request.headers.add("Expect", "100-continue");
    std::string got;
    const ClientResponse response =
        client.send(request, soon(), {}, [&](std::span<const std::byte> piece) {
            got.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        });
    CHECK(response.body.empty());
    CHECK(got == content);
}

TEST_CASE("a source that ends early fails the request and the next one is clean") {
    const auto server = echo_server();
    Client client(url_of(server->port()));
    ClientRequest request{.method = "PUT"};
    request.body_source = [](std::span<std::byte>) { return std::size_t{0}; };
    request.content_length = 5;
    CHECK(failure_of([&] { client.send(request, soon()); }).reason() == "IncompleteBody");
    CHECK(client.send({.method = "PUT", .body = "next"}, soon()).body == "next");
}

TEST_CASE("an answer before the end of the upload ends the upload") {
    Server server(sys::Listener::tcp("127.0.0.1", 0), [](Request&) {
        Response response;
        response.status = 403;
        response.body = "denied";
        return response;
    });
    Client client(url_of(server.port()));
    for (const bool expect : {false, true}) {
        CAPTURE(expect);
        std::uint64_t asked = 0;
        ClientRequest request{.method = "PUT"};
        request.body_source = [&](std::span<std::byte> into) {
            asked += into.size();
            return into.size();
        };
        request.content_length = std::uint64_t{1} << 40;
        if (expect) request.headers.add("Expect", "100-continue");
        const ClientResponse response = client.send(request, soon());
        CHECK(response.status == 403);
        CHECK(response.body == "denied");
        CHECK(asked < (std::uint64_t{1} << 36));
        if (expect) CHECK(asked == 0);
    }
}

TEST_CASE("a connection the server closed meanwhile is replaced without the caller noticing") {
    const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const Scripted server({answer(ok), answer(ok),
                           [&](sys::Socket& socket) {
                               receive_head(socket);
                               socket.write(as_bytes(ok), soon());
                               receive_head(socket);  // read, then closed without an answer
                           },
                           answer(ok)});
    Client client(url_of(server.port()));
    for (int i = 0; i < 4; ++i) CHECK(client.send({}, soon()).body == "ok");
}

TEST_CASE("a large body is sent again from its start when the connection turned out to be stale") {
    const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    std::string received;
    const Scripted server({[&](sys::Socket& socket) {
                               receive_head(socket);
                               socket.write(as_bytes(ok), soon());
                               receive_head(socket);
                           },
                           [&](sys::Socket& socket) {
                               receive_head(socket);
                               std::vector<std::byte> buffer(100000);
                               while (received.size() < 5000000) {
                                   const std::size_t got = socket.read(buffer, soon());
                                   if (got == 0) return;
                                   received.append(reinterpret_cast<const char*>(buffer.data()),
                                                   got);
                               }
                               socket.write(as_bytes(ok), soon());
                           }});
    Client client(url_of(server.port()));
    client.send({}, soon());
    const std::string body(5000000, 'b');
    CHECK(client.send({.method = "PUT", .body = body}, soon()).body == "ok");
    CHECK(received == body);
}

TEST_CASE("a request that may have been carried out is not repeated") {
    const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const Scripted server({[&](sys::Socket& socket) {
                               receive_head(socket);
                               socket.write(as_bytes(ok), soon());
                               receive_head(socket);
                           },
                           answer(ok)});
    Client client(url_of(server.port()));
    client.send({.method = "POST"}, soon());
    CHECK(failure_of([&] { client.send({.method = "POST"}, soon()); }).code() == Code::unavailable);
    CHECK(client.send({.method = "POST"}, soon()).body == "ok");
}

TEST_CASE("interim responses are skipped and every framing of a body is understood") {
    const Scripted server({
        answer("HTTP/1.1 102 Busy\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 "
               "Made\r\nContent-Length: 1\r\n\r\nx"),
        answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: "
               "close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        answer("HTTP/1.0 200 OK\r\n\r\nuntil close"),
        answer("HTTP/1.1 204 None\r\nConnection: close\r\n\r\n"),
    });
    Client client(url_of(server.port()));
    CHECK(client.send({}, soon()).status == 201);
    CHECK(client.send({}, soon()).body == "abc");
    CHECK(client.send({}, soon()).body == "until close");
    CHECK(client.send({}, soon()).status == 204);
}

TEST_CASE("broken, silent and absent servers each have their code") {
    const Scripted server({answer("SSH-2.0-OpenSSH\r\n\r\n"),
                           answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
                           answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
                           [](sys::Socket& socket) {
                               receive_head(socket);
                               receive_head(socket);  // until the client gives up
                           },
                           [](sys::Socket& socket) {
                               receive_head(socket);
                               receive_head(socket);
                           }});
    Client client(url_of(server.port()));
    CHECK(failure_of([&] { client.send({}, soon()); }).code() == Code::invalid);
    CHECK(failure_of([&] { client.send({}, soon()); }).code() == Code::unavailable);
    CHECK(failure_of([&] { client.send({}, soon()); }).code() == Code::invalid);
    CHECK(failure_of([&] { client.send({}, Deadline::in(milliseconds(20))); }).code() ==
          Code::timed_out);
    std::stop_source stop;
    std::jthread stopper([&] { stop.request_stop(); });
    CHECK(failure_of([&] { client.send({}, soon(), stop.get_token()); }).code() == Code::cancelled);
    const std::uint16_t free_port = sys::Listener::tcp("127.0.0.1", 0).port();
    const Error away = failure_of([&] { Client(url_of(free_port)).send({}, soon()); });
    CHECK(away.code() == Code::unavailable);
    CHECK(std::string(away.what()).find(std::to_string(free_port)) != std::string::npos);
    CHECK(failure_of([] { const Client secure(parse_url("https://h")); }).code() ==
          Code::unsupported);
}

TEST_CASE("header values with line breaks never leave the client") {
    const auto server = echo_server();
    Client client(url_of(server->port()));
    CHECK(failure_of([&] { client.send({.target = "/a b"}, soon()); }).code() == Code::invalid);
    CHECK(failure_of([&] { client.send({.target = "/a\r\nX: y"}, soon()); }).code() ==
          Code::invalid);
    ClientRequest request;
    request.headers.add("X", "a\r\nY: b");
    CHECK(failure_of([&] { client.send(request, soon()); }).code() == Code::invalid);
}
