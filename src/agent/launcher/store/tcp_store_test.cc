// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/store/tcp_store.h"

#include "base/error.h"
#include "base/text.h"
#include "sys/sys.h"

#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;

namespace {

template <typename Number>
std::string number(Number value) {
    std::string raw(sizeof value, '\0');
    std::memcpy(raw.data(), &value, sizeof value);
    return raw;
}

std::string u64(std::uint64_t value) {
    return number(value);
}

std::string text(std::string_view value) {
    return u64(value.size()) + std::string(value);
}

std::string op(int code, std::initializer_list<std::string> arguments = {}) {
    std::string out(1, static_cast<char>(code));
    for (const std::string& argument : arguments) out += argument;
    return out;
}

const std::string kHandshake = op(0, {number<std::uint32_t>(0x3C85F7CE)});

class Client {
public:
    explicit Client(const TcpStore& store, const std::string& first = kHandshake)
        : socket_(sys::Socket::connect_tcp("127.0.0.1", store.port(), by_)) {
        send(first);
    }
    void send(const std::string& bytes) { socket_.write(as_bytes(bytes), by_); }
    std::string receive(std::size_t size) {
        std::string out(size, '\0');
        std::size_t have = 0;
        while (have < size) {
            const std::size_t got =
                socket_.read(std::as_writable_bytes(std::span(out).subspan(have)), by_);
            REQUIRE(got > 0);
            have += got;
        }
        return out;
    }
    std::string ask(const std::string& bytes, std::size_t size) {
        send(bytes);
        return receive(size);
    }
    /// Everything sent so far has been served.
    void sync() { CHECK(ask(op(13, {number(7u)}), 4) == number(7u)); }
    bool is_closed() {
        std::array<std::byte, 1> byte;
        try {
            return socket_.read(byte, by_) == 0;
        } catch (const Error& error) {
            return error.code() == Code::unavailable;
        }
    }

private:
    Deadline by_ = Deadline::in(seconds(20));
    sys::Socket socket_;
};

const std::string kYes(1, '\0'), kNo(1, '\1');

bool becomes(const std::function<bool()>& condition) {
    const Deadline by = Deadline::in(seconds(10));
    while (!condition() && !by.passed()) sys::pause(Deadline::in(milliseconds(1)), {});
    return condition();
}

}  // namespace

TEST_CASE("values are set, got, compared, counted, appended and deleted") {
    TcpStore store("127.0.0.1", 0);
    Client client(store);
    client.send(op(1, {text("/k"), text("v")}));
    CHECK(client.ask(op(3, {text("/k")}), 9) == text("v"));
    CHECK(client.ask(op(2, {text("/c"), text("x"), text("new")}), 9) == text("x"));
    CHECK(client.ask(op(2, {text("/c"), text(""), text("new")}), 11) == text("new"));
    CHECK(client.ask(op(2, {text("/c"), text(""), text("zzz")}), 11) == text("new"));
    CHECK(client.ask(op(2, {text("/c"), text("new"), text("n2")}), 10) == text("n2"));
    CHECK(client.ask(op(4, {text("/n"), u64(5)}), 8) == u64(5));
    CHECK(client.ask(op(4, {text("/n"), number<std::int64_t>(-7)}), 8) == number<std::int64_t>(-2));
    CHECK(client.ask(op(3, {text("/n")}), 10) == text("-2"));
    client.send(op(9, {text("/a"), text("ab")}) + op(9, {text("/a"), text("cd")}));
    CHECK(client.ask(op(3, {text("/a")}), 12) == text("abcd"));
    CHECK(client.ask(op(7), 8) == u64(4));
    CHECK(client.ask(op(8, {text("/k")}), 8) == u64(1));
    CHECK(client.ask(op(8, {text("/k")}), 8) == u64(0));
    CHECK(becomes([&] { return store.keys() == 3; }));
    CHECK(client.ask(op(13, {number<std::uint32_t>(0xABCD)}), 4) == number<std::uint32_t>(0xABCD));
    CHECK(client.ask(op(17), 8 + 3 * 10).substr(0, 8) == u64(3));
}

TEST_CASE("several keys go in one request") {
    TcpStore store("127.0.0.1", 0);
    Client client(store);
    client.send(op(11, {u64(2), text("/a"), text("1"), text("/b"), text("22")}));
    CHECK(client.ask(op(10, {u64(2), text("/a"), text("/b")}), 19) == text("1") + text("22"));
    CHECK(client.ask(op(5, {u64(2), text("/a"), text("/b")}), 1) == kYes);
    CHECK(client.ask(op(5, {u64(2), text("/a"), text("/z")}), 1) == kNo);
    CHECK(client.ask(op(5, {u64(0)}), 1) == kYes);
    CHECK(client.ask(op(6, {u64(0)}), 1) == kYes);
}

TEST_CASE("a wait ends when the last key comes, by whatever operation") {
    TcpStore store("127.0.0.1", 0);
    Client waiter(store), setter(store);
    waiter.send(op(6, {u64(4), text("/s"), text("/c"), text("/n"), text("/a")}));
    setter.send(op(1, {text("/s"), text("")}));
    CHECK(setter.ask(op(2, {text("/c"), text(""), text("x")}), 9) == text("x"));
    CHECK(setter.ask(op(4, {text("/n"), u64(1)}), 8) == u64(1));
    setter.send(op(9, {text("/a"), text("x")}));
    CHECK(waiter.receive(1) == kYes);
    waiter.sync();  // one answer, not four
}

TEST_CASE("a cancelled wait is over for good") {
    TcpStore store("127.0.0.1", 0);
    Client waiter(store), setter(store);
    waiter.send(op(6, {u64(1), text("/late")}));
    CHECK(waiter.ask(op(12), 1) == kNo);
    setter.send(op(1, {text("/late"), text("x")}));
    setter.sync();
    waiter.sync();
    CHECK(waiter.ask(op(6, {u64(1), text("/late")}), 1) == kYes);
}

TEST_CASE("a queue wakes one waiter for each entry and is no key") {
    TcpStore store("127.0.0.1", 0);
    Client first(store), second(store), producer(store);
    first.send(op(6, {u64(1), text("/q")}));
    first.send(op(13, {number(1u)}));
    CHECK(first.receive(4) == number(1u));
    second.send(op(6, {u64(1), text("/q")}) + op(13, {number(1u)}));
    CHECK(second.receive(4) == number(1u));
    producer.send(op(14, {text("/q"), text("one")}));
    CHECK(first.receive(1) == kYes);
    second.sync();  // still waits
    CHECK(producer.ask(op(16, {text("/q")}), 8) == u64(1));
    CHECK(producer.ask(op(7), 8) == u64(0));
    CHECK(first.ask(op(15, {text("/q")}), 19) == u64(1) + text("one"));
    CHECK(first.ask(op(15, {text("/q")}), 8) == u64(0));
    producer.send(op(14, {text("/q"), text("two")}));
    CHECK(second.receive(1) == kYes);
    CHECK(second.ask(op(15, {text("/q")}), 19) == u64(1) + text("two"));
}

TEST_CASE("a barrier opens for all at once and stays open") {
    TcpStore store("127.0.0.1", 0);
    Client a(store), b(store), c(store);
    const std::string at = op(18, {text("/b"), u64(3)});
    a.send(at + op(13, {number(1u)}));
    CHECK(a.receive(4) == number(1u));
    b.send(at + op(13, {number(1u)}));
    CHECK(b.receive(4) == number(1u));
    CHECK(c.ask(at, 1) == kYes);
    CHECK(a.receive(1) == kYes);
    CHECK(b.receive(1) == kYes);
    CHECK(a.ask(at, 1) == kYes);
    CHECK(a.ask(op(3, {text("/b")}), 9) == text("4"));
}

TEST_CASE("large values arrive whole in both directions, also byte by byte and pipelined") {
    TcpStore store("127.0.0.1", 0);
    Client client(store);
    std::string big(10u << 20, 'x');
    for (std::size_t i = 0; i < big.size(); i += 4096) big[i] = static_cast<char>(i >> 12);
    client.send(op(1, {text("/big"), text(big)}));
    CHECK(client.ask(op(3, {text("/big")}), big.size() + 8).substr(8) == big);
    for (const char byte : op(1, {text("/k"), text("v")}) + op(3, {text("/k")}))
        client.send(std::string(1, byte));
    CHECK(client.receive(9) == text("v"));
    // Answers that are not taken hold back their own connection only.
    Client greedy(store);
    std::string asks;
    for (int i = 0; i < 8; ++i) asks += op(3, {text("/big")});
    greedy.send(asks);
    client.sync();
    for (int i = 0; i < 8; ++i) CHECK(greedy.receive(big.size() + 8).substr(8) == big);
    greedy.sync();
}

TEST_CASE("what makes no sense closes the connection and nothing else") {
    TcpStore store("127.0.0.1", 0);
    Client good(store);
    for (const std::string& first :
         {op(0, {number(0xDEADBEEFu)}), std::string("GET / HTTP/1.1\r\n\r\n"),
          op(0, {text("/old-dialect"), text("v")}), op(1, {text("/k"), text("v")})})
        CHECK(Client(store, first).is_closed());
    const std::string huge = u64(std::uint64_t(1) << 62);
    for (const std::string& request :
         {op(19), op(255), kHandshake, op(3, {text("/absent")}), op(10, {u64(1), text("/absent")}),
          op(1, {huge}), op(1, {text("/k"), huge}), op(5, {huge}), op(6, {huge}), op(11, {huge}),
          op(10, {u64(131073)}), op(1, {text("/t"), text("abc")}) + op(4, {text("/t"), u64(1)})})
        CHECK(Client(store, kHandshake + request).is_closed());
    good.sync();
    CHECK(becomes([&] { return store.connections() == 1; }));
}

TEST_CASE("clients may vanish in the middle of anything") {
    TcpStore store("127.0.0.1", 0);
    Client good(store);
    for (int i = 0; i < 50; ++i) {
        Client(store).send(op(6, {u64(1), text("/w")}));
        Client(store).send(op(18, {text("/bar"), u64(100)}));
        Client(store).send(op(1, {text("/half"), u64(100)}) + "half");
    }
    CHECK(becomes([&] { return store.connections() == 1; }));
    good.send(op(1, {text("/w"), text("x")}));
    good.sync();
    CHECK(good.ask(op(5, {u64(1), text("/half")}), 1) == kNo);
}

TEST_CASE("a taken port is a conflict, the end of a store ends its clients") {
    auto store = std::make_unique<TcpStore>("127.0.0.1", 0);
    try {
        TcpStore second("127.0.0.1", store->port());
        FAIL("not refused");
    } catch (const Error& error) {
        CHECK(error.code() == Code::conflict);
    }
    Client waiter(*store);
    waiter.send(op(6, {u64(1), text("/never")}));
    store.reset();
    CHECK(waiter.is_closed());
    TcpStore everywhere("", 0);
    Client(everywhere).sync();
}
