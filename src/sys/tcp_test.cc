// SPDX-License-Identifier: Apache-2.0
#include "sys/tcp.h"

#include "base/error.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>

#include <fcntl.h>
#include <sys/socket.h>

using namespace ty;
using namespace ty::sys;

namespace {

Deadline soon() {
    return Deadline::in(seconds(20));
}

struct Pair {
    Socket client;
    Socket server;
};

Pair connected() {
    Listener listener = Listener::tcp("127.0.0.1", 0);
    Pair pair;
    pair.client = Socket::connect_tcp("127.0.0.1", listener.port(), soon());
    pair.server = std::move(*listener.accept({}));
    return pair;
}

template <typename Fn>
Code code_of(Fn&& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.code();
    }
    return Code::internal;
}

}  // namespace

TEST_CASE("bytes cross a connection and the end of the stream is seen") {
    Pair pair = connected();
    pair.client.write(as_bytes("hello"), soon());
    pair.client.shutdown_write();
    std::array<std::byte, 64> buffer;
    CHECK(pair.server.read(buffer, soon()) == 5);
    CHECK(pair.server.read(buffer, soon()) == 0);
}

TEST_CASE("reads and writes give up at their deadline or when stopped") {
    Pair pair = connected();
    std::array<std::byte, 64> buffer;
    CHECK(code_of([&] { pair.server.read(buffer, Deadline::in(milliseconds(5))); }) ==
          Code::timed_out);
    std::stop_source stop;
    std::jthread stopper([&stop] { stop.request_stop(); });
    CHECK(code_of([&] { pair.server.read(buffer, Deadline::never(), stop.get_token()); }) ==
          Code::cancelled);
    const std::string flood(64u << 20, 'x');
    CHECK(code_of([&] { pair.server.write(as_bytes(flood), Deadline::in(milliseconds(50))); }) ==
          Code::timed_out);
}

TEST_CASE("a reset connection is an absent peer") {
    Pair pair = connected();
    const linger hard = {1, 0};
    ::setsockopt(pair.client.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    pair.client.close();
    std::array<std::byte, 64> buffer;
    CHECK(code_of([&] { pair.server.read(buffer, soon()); }) == Code::unavailable);
    CHECK(code_of([&] { pair.server.write(as_bytes("x"), soon()); }) == Code::unavailable);
}

TEST_CASE("a range of a file is sent, and a file shorter than announced is noticed") {
    const TempDir dir;
    std::string content;
    for (int i = 0; i < 300000; ++i) content += static_cast<char>('a' + i % 26);
    write_file(dir.path() / "f", content);
    const Fd file = open_read(dir.path() / "f");
    Pair pair = connected();
    std::string got;
    std::jthread reader([&] {
        std::array<std::byte, 4096> buffer;
        while (const std::size_t count = pair.client.read(buffer, soon())) {
            got.append(reinterpret_cast<const char*>(buffer.data()), count);
        }
    });
    pair.server.send_file(file.get(), 26, 250000, soon());
    pair.server.shutdown_write();
    reader.join();
    CHECK(got == content.substr(26, 250000));
    CHECK(code_of([&] { pair.client.send_file(file.get(), 299999, 5, soon()); }) == Code::corrupt);
}

TEST_CASE("a taken port and a silent port are told with their names") {
    const Listener listener = Listener::tcp("127.0.0.1", 0);
    try {
        Listener::tcp("127.0.0.1", listener.port());
        FAIL("listened twice");
    } catch (const Error& error) {
        CHECK(error.code() == Code::conflict);
        CHECK(error.reason() == "AddressInUse");
        CHECK(error.message().find(std::to_string(listener.port())) != std::string::npos);
    }
    std::uint16_t free_port = 0;
    { free_port = Listener::tcp("127.0.0.1", 0).port(); }
    CHECK(code_of([&] { Socket::connect_tcp("127.0.0.1", free_port, soon()); }) ==
          Code::unavailable);
}

TEST_CASE("accepting stops when told to") {
    Listener listener = Listener::tcp("127.0.0.1", 0);
    std::stop_source stop;
    std::jthread stopper([&stop] { stop.request_stop(); });
    CHECK_FALSE(listener.accept(stop.get_token()));
}
