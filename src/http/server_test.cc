// SPDX-License-Identifier: Apache-2.0
// Server behaviour seen from raw sockets, so that what is on the wire is what is checked.
#include "base/error.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/http.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <thread>

#include <sys/socket.h>

using namespace ty;
using namespace ty::http;

namespace {

Deadline soon() {
    return Deadline::in(seconds(20));
}

/// A client that sees bytes, not messages.
class Wire {
public:
    explicit Wire(std::uint16_t port)
        : socket_(sys::Socket::connect_tcp("127.0.0.1", port, soon())) {}
    void send(std::string_view text) { socket_.write(as_bytes(text), soon()); }
    /// Receive until `mark` was seen; what came up to and including it.
    std::string until(std::string_view mark) {
        while (true) {
            const auto at = held_.find(mark);
            if (at != std::string::npos) {
                const std::string result = held_.substr(0, at + mark.size());
                held_.erase(0, at + mark.size());
                return result;
            }
            if (!more()) return "<closed>" + std::exchange(held_, {});
        }
    }
    std::string head() { return until("\r\n\r\n"); }
    std::string body(std::size_t size) {
        while (held_.size() < size && more()) continue;
        const std::string result = held_.substr(0, size);
        held_.erase(0, size);
        return result;
    }
    std::string rest() {
        while (more()) continue;
        return std::exchange(held_, {});
    }
    sys::Socket& socket() { return socket_; }
    void reset() {
        const linger hard = {1, 0};
        ::setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        socket_.close();
    }

private:
    bool more() {
        std::array<std::byte, 4096> buffer;
        const std::size_t got = socket_.read(buffer, soon());
        held_.append(reinterpret_cast<const char*>(buffer.data()), got);
        return got > 0;
    }
    sys::Socket socket_;
    std::string held_;
};

Response text(std::string body, int status = 200) {
    Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

Response echo(Request& request) {
    Response response = text(request.method + " " + request.path + " " + request.query + " " +
                             request.body->read_all(Bytes(1u << 20)));
    response.headers.add("X-Host", std::string(request.headers.get("Host")));
    return response;
}

std::unique_ptr<Server> serve(Handler handler, ServerOptions options = {}) {
    return std::make_unique<Server>(sys::Listener::tcp("127.0.0.1", 0), std::move(handler),
                                    std::move(options));
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// Waits, without sleeping, for something another thread brings about.
class Flag {
public:
    void set() {
        set_.with([](bool& value) { value = true; });
        set_.notify();
    }
    bool wait() {
        return set_.wait(
            soon(), {}, [](bool value) { return value; }, [](bool& value) { return value; });
    }

private:
    Sync<bool> set_{false};
};

}  // namespace

TEST_CASE("requests are answered one after another on one connection") {
    const auto server = serve(echo);
    Wire wire(server->port());
    for (int i = 0; i < 3; ++i) {
        wire.send("POST /a%2Fb?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
        const std::string head = wire.head();
        CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
        CHECK(has(head, "X-Host: h\r\n"));
        CHECK(has(head, "Content-Length: 20\r\n"));
        CHECK(has(head, " GMT\r\n"));
        CHECK_FALSE(has(head, "Connection:"));
        CHECK(wire.body(20) == "POST /a%2Fb x=1 body");
    }
}

TEST_CASE("pipelined requests are answered in order, however they are cut") {
    const auto server = serve(echo);
    Wire wire(server->port());
    std::string all;
    for (int i = 0; i < 50; ++i) {
        all += format("POST /{} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{:02}", i, i);
        all += format(
            "POST /c{} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
            "chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n\r\n",
            i);
    }
    all += "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    std::jthread sender([&] {
        for (std::size_t at = 0; at < all.size(); at += 7)
            wire.send(std::string_view(all).substr(at, 7));
    });
    for (int i = 0; i < 50; ++i) {
        wire.head();
        const std::string want = format("POST /{}  {:02}", i, i);
        CHECK(wire.body(want.size()) == want);
        wire.head();
        const std::string chunked = format("POST /c{}  x", i);
        CHECK(wire.body(chunked.size()) == chunked);
    }
    CHECK(has(wire.head(), "Connection: close\r\n"));
    CHECK(wire.rest() == "GET /last  ");
}

TEST_CASE("malformed and oversized heads are refused with a sentence, and the connection closes") {
    ServerOptions options;
    options.limits.head = Bytes(2000);
    options.limits.header_count = 5;
    const auto server = serve(echo, options);
    const auto answer = [&](const std::string& request) {
        Wire wire(server->port());
        wire.send(request);
        const std::string head = wire.head();
        CHECK(has(head, "Connection: close\r\n"));
        CHECK(has(head, "Content-Type: text/plain"));
        CHECK(wire.rest().size() > 10);
        return head.substr(0, 12);
    };
    CHECK(answer("nonsense\r\n\r\n") == "HTTP/1.1 400");
    CHECK(answer("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n") == "HTTP/1.1 400");
    CHECK(answer("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(3000, 'x')) == "HTTP/1.1 431");
    CHECK(answer("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1990, 'x') + "\r\n\r\n") ==
          "HTTP/1.1 431");
    CHECK(answer("GET / HTTP/1.1\r\nHost: a\r\nA:b\r\nB:b\r\nC:b\r\nD:b\r\nE:b\r\n\r\n") ==
          "HTTP/1.1 431");
    CHECK(answer("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n") == "HTTP/1.1 405");
}

TEST_CASE("a head that trickles in is cut off with 408, a silent connection just closes") {
    ServerOptions options;
    options.limits.header_timeout = seconds(0);
    options.limits.idle = seconds(1);
    const auto server = serve(echo, options);
    Wire slow(server->port());
    Wire silent(server->port());
    slow.send("GET / HT");
    CHECK(slow.head().starts_with("HTTP/1.1 408"));
    CHECK(silent.rest().empty());
}

TEST_CASE("connections over the limit get 503 and room appears when one closes") {
    ServerOptions options;
    options.limits.connections = 2;
    const auto server = serve(echo, options);
    const std::string get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    Wire one(server->port());
    auto two = std::make_unique<Wire>(server->port());
    one.send(get);
    one.head();
    two->send(get);
    two->head();
    {
        Wire three(server->port());
        three.send(get);
        CHECK(three.head().starts_with("HTTP/1.1 503"));
    }
    two.reset();
    bool served = false;
    for (const Deadline by = soon(); !served && !by.passed();) {
        Wire again(server->port());
        again.send(get);
        served = again.head().starts_with("HTTP/1.1 200");
    }
    CHECK(served);
}

TEST_CASE("100 Continue is sent when the handler first reads the body, not before") {
    Flag may_read;
    const auto server = serve([&](Request& request) {
        CHECK(may_read.wait());
        return echo(request);
    });
    Wire wire(server->port());
    wire.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    std::byte byte;
    CHECK_THROWS_AS(wire.socket().read(std::span(&byte, 1), Deadline::in(milliseconds(20))), Error);
    may_read.set();
    CHECK(wire.head() == "HTTP/1.1 100 Continue\r\n\r\n");
    wire.send("abc");
    CHECK(wire.head().starts_with("HTTP/1.1 200"));
    CHECK(wire.body(10) == "PUT /  abc");
    // The connection goes on.
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(wire.head().starts_with("HTTP/1.1 200"));
}

TEST_CASE("a refusal before the body needs no body and ends the connection") {
    const auto server = serve([](Request&) { return text("no bucket", 404); });
    Wire waiting(server->port());
    waiting.send(
        "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
    const std::string head = waiting.head();
    CHECK(head.starts_with("HTTP/1.1 404"));
    CHECK(has(head, "Connection: close"));
    CHECK(waiting.rest() == "no bucket");

    // A client that sends regardless can still read its answer.
    Wire eager(server->port());
    std::jthread sender([&] {
        try {
            eager.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n" +
                       std::string(3000000, 'x'));
        } catch (const Error&) {
            // Cut off in the middle: also fine for a sender.
        }
    });
    CHECK(eager.head().starts_with("HTTP/1.1 404"));
    CHECK(eager.rest() == "no bucket");
}

TEST_CASE("a small unread body is skipped and the connection kept") {
    const auto server = serve([](Request&) { return text("ok"); });
    Wire wire(server->port());
    wire.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n");
    CHECK(wire.head().starts_with("HTTP/1.1 200"));
    CHECK(wire.body(2) == "ok");
    wire.send(std::string(5000, 'x') + "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(wire.head().starts_with("HTTP/1.1 200"));
    wire.body(2);
    wire.send(
        "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(wire.head().starts_with("HTTP/1.1 200"));
    wire.body(2);
    CHECK(wire.head().starts_with("HTTP/1.1 200"));
}

TEST_CASE("bodies that are broken, too large or cut off do not become internal errors") {
    const auto server =
        serve([](Request& request) { return text(request.body->read_all(Bytes(1000))); });
    Wire bad(server->port());
    bad.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    CHECK(bad.head().starts_with("HTTP/1.1 400"));
    Wire large(server->port());
    large.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    CHECK(large.head().starts_with("HTTP/1.1 413"));
    Wire large_chunked(server->port());
    large_chunked.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                       std::string(2000, 'x'));
    CHECK(large_chunked.head().starts_with("HTTP/1.1 413"));
    Wire cut(server->port());
    cut.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
    cut.socket().shutdown_write();
    CHECK(cut.rest().empty());
}

TEST_CASE("HEAD, 204 and 304 carry no body") {
    const auto server = serve([](Request& request) {
        Response response;
        if (request.path == "/head_only") {
            response.headers.add("Content-Length", "123");
            response.head_only = true;
        } else if (request.path == "/204") {
            response.status = 204;
            response.body = "ignored";
        } else if (request.path == "/304") {
            response.status = 304;
            response.headers.add("ETag", "x");
        } else {
            response.body = "12345";
        }
        return response;
    });
    Wire wire(server->port());
    wire.send(
        "HEAD / HTTP/1.1\r\nHost: h\r\n\r\nHEAD /head_only HTTP/1.1\r\nHost: h\r\n\r\n"
        "GET /204 HTTP/1.1\r\nHost: h\r\n\r\nGET /304 HTTP/1.1\r\nHost: h\r\n\r\n"
        "GET /head_only HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(has(wire.head(), "Content-Length: 5\r\n"));
    CHECK(has(wire.head(), "Content-Length: 123\r\n"));
    const std::string none = wire.head();
    CHECK(none.starts_with("HTTP/1.1 204"));
    CHECK_FALSE(has(none, "Content-Length"));
    CHECK(wire.head().starts_with("HTTP/1.1 304"));
    CHECK(has(wire.head(), "Content-Length: 0\r\n"));
    CHECK(has(wire.head(), "Content-Length: 5\r\n"));
    CHECK(wire.body(5) == "12345");
}

TEST_CASE("what handlers put into headers cannot split a response or change its framing") {
    const auto server = serve([](Request&) {
        Response response = text("ok");
        response.headers.add("X-Meta", "a\r\nSet-Cookie: evil");
        response.headers.add("Content-Length", "999");
        response.headers.add("Transfer-Encoding", "chunked");
        return response;
    });
    Wire wire(server->port());
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string head = wire.head();
    CHECK(has(head, "X-Meta: a  Set-Cookie: evil\r\n"));
    CHECK(has(head, "Content-Length: 2\r\n"));
    CHECK_FALSE(has(head, "999"));
    CHECK_FALSE(has(head, "chunked"));
}

TEST_CASE("files, large bodies and streams arrive whole") {
    const sys::TempDir dir;
    std::string content;
    for (int i = 0; i < 500000; ++i) content += static_cast<char>('a' + i % 23);
    sys::write_file(dir.path() / "f", content);
    const auto server = serve([&](Request& request) {
        Response response;
        if (request.path == "/file") {
            response.file = FileBody{sys::open_read(dir.path() / "f"), 100, 400000};
        } else if (request.path == "/large") {
            response.body = content;
        } else {
            if (request.path == "/sized")
                response.headers.add("Content-Length", std::to_string(content.size()));
            response.stream = [&content](BodyWriter& out) {
                out.write(std::string_view());
                out.write(std::string_view(content).substr(0, 10));
                out.write(std::string_view(content).substr(10));
            };
        }
        return response;
    });
    Client client(parse_url(format("http://127.0.0.1:{}", server->port())));
    const auto get = [&](const std::string& target) {
        return client.send({.target = target}, soon()).body;
    };
    CHECK(get("/file") == content.substr(100, 400000));
    CHECK(get("/large") == content);
    CHECK(get("/sized") == content);
    CHECK(get("/stream") == content);
    CHECK(server->connections() == 1);
    Wire old(server->port());
    old.send("GET /stream HTTP/1.0\r\n\r\n");
    CHECK_FALSE(has(old.head(), "chunked"));
    CHECK(old.rest() == content);
}

TEST_CASE("chunks of a stream reach the client as they are written") {
    Flag received;
    const auto server = serve([&](Request&) {
        Response response;
        response.stream = [&received](BodyWriter& out) {
            out.write(std::string_view("one"));
            CHECK(received.wait());
            out.write(std::string_view("two"));
        };
        return response;
    });
    Wire wire(server->port());
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(has(wire.head(), "Transfer-Encoding: chunked"));
    CHECK(wire.body(8) == "3\r\none\r\n");
    received.set();
    CHECK(wire.body(13) == "3\r\ntwo\r\n0\r\n\r\n");
}

TEST_CASE("a streaming handler learns that its client hung up") {
    Flag noticed;
    const auto server = serve([&](Request& request) {
        Response response;
        response.stream = [&noticed, stop = request.stop](BodyWriter& out) {
            out.write(std::string_view("one"));
            if (!sys::pause(soon(), stop)) noticed.set();
        };
        return response;
    });
    Wire wire(server->port());
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wire.head();
    wire.socket().close();
    CHECK(noticed.wait());
}

TEST_CASE("a stream that fails half-way breaks the connection instead of looking complete") {
    const auto server = serve([](Request&) {
        Response response;
        response.stream = [](BodyWriter& out) {
            out.write(std::string_view("one"));
            throw_error(Code::unavailable, "", "source is gone");
        };
        return response;
    });
    Client client(parse_url(format("http://127.0.0.1:{}", server->port())));
    try {
        client.send({}, soon());
        FAIL("complete");
    } catch (const Error& error) {
        CHECK(error.code() == Code::unavailable);
    }
}

TEST_CASE("a handler that throws is a 500 that tells nothing, and the connection goes on") {
    const auto server = serve([](Request& request) -> Response {
        if (request.path == "/ours") throw_error(Code::internal, "", "secret detail");
        if (request.path == "/std") throw std::runtime_error("secret detail");
        return text("fine");
    });
    Client client(parse_url(format("http://127.0.0.1:{}", server->port())));
    for (const char* target : {"/ours", "/std"}) {
        const ClientResponse response = client.send({.target = target}, soon());
        CHECK(response.status == 500);
        CHECK_FALSE(has(response.body, "secret"));
    }
    CHECK(client.send({}, soon()).body == "fine");
}

TEST_CASE("clients that vanish at any point leave the server as it was") {
    const auto server = serve(echo);
    const std::string request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
    for (std::size_t cut = 0; cut <= request.size(); ++cut) {
        Wire wire(server->port());
        wire.send(std::string_view(request).substr(0, cut));
        wire.reset();
    }
    Client client(parse_url(format("http://127.0.0.1:{}", server->port())));
    CHECK(client.send({}, soon()).status == 200);
}

TEST_CASE("stopping closes idle connections at once and lets running handlers answer") {
    Flag started;
    auto server = serve([&](Request& request) {
        if (request.path == "/slow") {
            started.set();
            sys::pause(soon(), request.stop);
        }
        return text("done");
    });
    std::vector<std::unique_ptr<Wire>> idle;
    for (int i = 0; i < 20; ++i) {
        idle.push_back(std::make_unique<Wire>(server->port()));
        if (i % 2 == 0) {
            idle.back()->send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            idle.back()->head();
        }
    }
    Wire busy(server->port());
    busy.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(started.wait());
    const Deadline quick = Deadline::in(seconds(2));
    server.reset();
    CHECK_FALSE(quick.passed());
    CHECK(has(busy.head(), "Connection: close"));
    CHECK(busy.rest() == "done");
    CHECK(idle[1]->rest().empty());
}
