// SPDX-License-Identifier: Apache-2.0
// The parts of a job's network that need no kernel: addresses, messages, orders.
#include "agent/control_plane.h"
#include "agent/network/addresses.h"
#include "agent/network/forwarder.h"
#include "agent/network/netlink.h"
#include "agent/network/network_main.h"
#include "agent/network/parcel.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <set>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;

namespace {

std::string hex(const std::string& message) {
    return to_hex(as_bytes(message));
}

}  // namespace

TEST_CASE("hosts have addresses of their own, none of which ends in 0 or 255") {
    CHECK(to_string(host_address(1)) == "10.84.0.2");
    CHECK(to_string(host_address(249)) == "10.84.0.250");
    CHECK(to_string(host_address(250)) == "10.84.1.1");
    CHECK(to_string(switch_address()) == "10.84.255.254");
    std::set<std::string> seen = {to_string(switch_address())};
    std::set<MacAddress> cards;
    for (int number = 1; number <= kMostHosts; ++number) {
        const IpAddress address = host_address(number);
        CHECK(seen.insert(to_string(address)).second);
        CHECK(cards.insert(host_mac(number)).second);
        CHECK(address.bytes[3] != 0);
        CHECK(address.bytes[3] != 255);
    }
    CHECK((host_mac(1)[0] & 3) == 2);  // locally administered, one host
    const auto list = host_list(2);
    REQUIRE(list.size() == 2);
    CHECK(list[1] == std::pair<std::string, std::string>("algo-2", "10.84.0.3"));
}

TEST_CASE("a host is named algo-N and nothing else") {
    CHECK(host_number("algo-17") == 17);
    for (const char* name : {"algo-0", "algo-", "algo-01", "algo--1", "algo-1001", "algo-2~3", "",
                             "algo-1 ", "node-1", "algo-99999999999999999999"}) {
        CHECK_THROWS_AS(host_number(name), Error);
    }
}

TEST_CASE("the daemon's address is a literal that hosts do not have themselves") {
    CHECK(parse_endpoint("127.0.0.1:4545").is_loopback());
    CHECK(parse_endpoint("127.0.0.1:4545").port == 4545);
    CHECK(parse_endpoint("localhost:80").is_loopback());
    CHECK(parse_endpoint("[::1]:4545").is_loopback());
    CHECK_FALSE(parse_endpoint("192.168.1.5:4545").is_loopback());
    CHECK(to_string(parse_endpoint("[fd00::5]:1").address) == "fd00::5");
    for (const char* text : {"127.0.0.1", "daemon:4545", "0.0.0.0:4545", "[::]:4545", "::1:4545",
                             "10.84.0.9:4545", "127.0.0.1:0", "127.0.0.1:65536", "", ":1"}) {
        CHECK_THROWS_AS(parse_endpoint(text), Error);
    }
}

TEST_CASE("netlink messages are what the ip program sends") {
    // Header: length, type, flags, sequence, sender; then the body and its attributes.
    CHECK(hex(set_link_up(7)) ==
          "20000000100005000000000000000000"
          "00000000070000000100000001000000");
    CHECK(hex(delete_link(7)) ==
          "20000000110005000000000000000000"
          "00000000070000000000000000000000");
    CHECK(hex(new_bridge("b0")) ==
          "38000000100005060000000000000000"
          "00000000000000000000000000000000"
          "0700030062300000"  // name, padded
          "10001280"          // link info: kind
          "0b00010062726964676500"
          "00");
    CHECK(hex(new_address(2, host_address(1), 16)) ==
          "28000000140005050000000000000000"
          "0210000002000000"
          "080002000a540002"
          "080001000a540002");
    CHECK(hex(set_port_state(5, PortState::disabled)) ==
          "2c000000130005000000000000000000"
          "07000000050000000000000000000000"
          "0c000c8005000100"
          "00000000");
}

TEST_CASE("attributes are aligned, and a nest is as long as what is in it") {
    const std::string message =
        new_cable({.name = "host1", .bridge = 3, .peer = "eth0", .mac = host_mac(1), .peer_ns = 9});
    CHECK(message.size() % 4 == 0);
    CHECK(message.find(std::string("eth0\0", 5)) != std::string::npos);
    // Walk the outer attributes: they end exactly with the message.
    std::size_t at = 32;
    int count = 0;
    while (at < message.size()) {
        const auto low = static_cast<unsigned char>(message[at]);
        const auto high = static_cast<unsigned char>(message[at + 1]);
        const std::size_t length = low + 256u * high;
        REQUIRE(length >= 4);
        at += (length + 3) / 4 * 4;
        ++count;
    }
    CHECK(at == message.size());
    CHECK(count == 3);
}

TEST_CASE("the orders of a network name what is wrong with them") {
    const NetworkOrders plain = network_orders_from_json(
        R"({"hosts": 3, "rendezvous": null, "control_plane": "http://127.0.0.1:1"})");
    CHECK(plain.hosts == 3);
    CHECK_FALSE(plain.elastic.has_value());
    CHECK(plain.named_hosts() == 3);
    const NetworkOrders elastic = network_orders_from_json(
        R"({"hosts": 2, "rendezvous": {"run_id": "j.1", "min_nodes": 1, "max_nodes": 4,
            "expected_nodes": 2, "max_restarts": 3, "checkpoints": true, "token": "t"}})");
    REQUIRE(elastic.elastic.has_value());
    CHECK(elastic.named_hosts() == 4);
    CHECK(elastic.elastic->id == "j.1");
    CHECK(elastic.elastic->has_checkpoints);
    CHECK(elastic.elastic->token == "t");
    for (const char* text :
         {"[]", "{}", R"({"hosts": 0})", R"({"hosts": "2"})", R"({"hosts": 2, "rendezvous": 1})",
          R"({"hosts": 2, "rendezvous": {}})",
          R"({"hosts": 2, "rendezvous": {"run_id": "a", "min_nodes": 3, "max_nodes": 2,
              "expected_nodes": 2, "max_restarts": 0, "token": ""}})"}) {
        CHECK_THROWS_AS(network_orders_from_json(text), Error);
    }
}

TEST_CASE("an agent's start says where its network is and which GPUs are its own") {
    const sys::TempDir dir("start");
    const auto read = [&](const std::string& more) {
        const sys::fs::path path = dir.path() / "start.json";
        sys::write_file(path, R"({"host": "algo-1", "control_plane": "u", "token": "t")" + more);
        return read_start(path);
    };
    CHECK(read("}").network.empty());
    const Start start = read(R"(, "network": "/run/socket", "gpus": [1, 3]})");
    CHECK(start.network == "/run/socket");
    CHECK(start.gpus == std::vector<int>{1, 3});
    CHECK_THROWS_WITH_AS(read(R"(, "gpus": [-1]})"), doctest::Contains("gpus"), Error);
    CHECK_THROWS_WITH_AS(read(R"(, "gpus": 2})"), doctest::Contains("gpus"), Error);
    CHECK_THROWS_WITH_AS(read(R"(, "network": 2})"), doctest::Contains("network"), Error);
}

TEST_CASE("a parcel brings text and descriptors, through a path of any length") {
    const sys::TempDir dir("parcel");
    const sys::fs::path deep = dir.path() / std::string(120, 'x');
    sys::fs::create_directories(deep);
    const sys::fs::path place = deep / "socket";
    CHECK_FALSE(connect_to(place).is_open());
    const sys::Fd listener = listen_at(place);
    const sys::Fd client = connect_to(place);
    REQUIRE(client.is_open());
    const sys::Fd server(::accept(listener.get(), nullptr, nullptr));
    const sys::Pipe pipe = sys::make_pipe();
    const std::array<int, 2> fds = {pipe.read.get(), pipe.write.get()};
    send_parcel(server.get(), "hello", fds);
    const auto parcel = receive_parcel(client.get());
    REQUIRE(parcel.has_value());
    CHECK(parcel->text == "hello");
    REQUIRE(parcel->fds.size() == 2);
    CHECK((::fcntl(parcel->fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
    sys::write_all(parcel->fds[1].get(), std::string_view("!"));
    std::array<std::byte, 4> byte;
    CHECK(sys::read_some(pipe.read.get(), byte) == 1);
}

namespace {

/// A forwarder in front of a listener, both on loopback.
struct Relay {
    sys::Listener target = sys::Listener::tcp("127.0.0.1", 0);
    sys::Fd front = sys::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    std::uint16_t port = 0;
    std::optional<Forwarder> forwarder;

    Relay() {
        REQUIRE(::listen(front.get(), 16) == 0);  // unbound: the kernel takes a free port
        sockaddr_in address = {};
        socklen_t size = sizeof address;
        REQUIRE(::getsockname(front.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
        port = ntohs(address.sin_port);
        forwarder.emplace(std::move(front), Forwarder::Target{"127.0.0.1", target.port()});
    }
    sys::Socket connect() const { return sys::Socket::connect_tcp("127.0.0.1", port, soon()); }
    static Deadline soon() { return Deadline::in(20s); }
};

std::string read_all(sys::Socket& socket) {
    std::string text;
    std::array<std::byte, 4096> buffer;
    while (const std::size_t got = socket.read(buffer, Relay::soon()))
        text.append(reinterpret_cast<const char*>(buffer.data()), got);
    return text;
}

}  // namespace

TEST_CASE("a forwarded connection carries both directions, and each may end first") {
    Relay relay;
    sys::Socket client = relay.connect();
    auto server = relay.target.accept({});
    REQUIRE(server.has_value());
    client.write(as_bytes("question"), Relay::soon());
    client.shutdown_write();
    CHECK(read_all(*server) == "question");
    server->write(as_bytes("answer"), Relay::soon());
    server->close();
    CHECK(read_all(client) == "answer");
}

TEST_CASE("more than the buffers hold waits for its reader and arrives whole") {
    Relay relay;
    sys::Socket client = relay.connect();
    auto server = relay.target.accept({});
    REQUIRE(server.has_value());
    std::string big(16u << 20, 'x');
    for (std::size_t i = 0; i < big.size(); i += 4096) big[i] = static_cast<char>('a' + i % 23);
    TaskGroup writer;
    writer.start("writer", [&](const std::stop_token&) {
        client.write(as_bytes(big), Relay::soon());
        client.shutdown_write();
    });
    CHECK(sha256_hex(read_all(*server)) == sha256_hex(big));
}

TEST_CASE("a target that is away resets connections, and later ones work again") {
    Relay relay;
    const std::uint16_t port = relay.target.port();
    relay.target = sys::Listener::tcp("127.0.0.1", 0);  // the old one is closed
    sys::Socket lost = relay.connect();
    CHECK_THROWS_AS(read_all(lost), Error);
    relay.target = sys::Listener::tcp("127.0.0.1", port);
    sys::Socket client = relay.connect();
    auto server = relay.target.accept({});
    REQUIRE(server.has_value());
    server->write(as_bytes("back"), Relay::soon());
    server->close();
    CHECK(read_all(client) == "back");
}

TEST_CASE("while held nothing passes, afterwards nothing is missing") {
    Relay relay;
    sys::Socket client = relay.connect();
    auto server = relay.target.accept({});
    REQUIRE(server.has_value());
    relay.forwarder->hold(true);
    client.write(as_bytes("late"), Relay::soon());
    std::array<std::byte, 16> buffer;
    CHECK_THROWS_AS((void)server->read(buffer, Deadline::in(30ms)), Error);
    relay.forwarder->hold(false);
    client.shutdown_write();
    CHECK(read_all(*server) == "late");
}
