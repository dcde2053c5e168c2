// SPDX-License-Identifier: Apache-2.0
// Jobs' networks for real: network processes, boxes that join them, programs that talk. The test
// program is its own box, network process and coordinator, and the program in the boxes.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/launcher/link/frames.h"
#include "agent/launcher/link/link.h"
#include "agent/network/network.h"
#include "agent/network/network_main.h"
#include "agent/network/parcel.h"
#include "agent/sandbox/box.h"
#include "base/error.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;
namespace fs = sys::fs;

// ---- what runs in the boxes ---------------------------------------------------------------------

namespace {

void say(const std::string& text) {
    sys::write_all(1, text + "\n");
}

/// Accept `count` connections; answer each line with "<host name> heard <line>".
int serve(const std::string& address, std::uint16_t port, int count) {
    sys::Listener listener = sys::Listener::tcp(address, port);
    std::array<char, 256> own = {};
    ::gethostname(own.data(), own.size() - 1);
    say("listening");
    for (int i = 0; i < count; ++i) {
        std::optional<sys::Socket> peer = listener.accept({});
        std::array<std::byte, 512> buffer;
        while (const std::size_t got = peer->read(buffer, Deadline::in(20s))) {
            const std::string heard(reinterpret_cast<const char*>(buffer.data()), got);
            peer->write(as_bytes(std::string(own.data()) + " heard " + heard), Deadline::in(20s));
        }
    }
    return 0;
}

/// One question; prints the answer, or why there is none.
int call(const std::string& host, std::uint16_t port, milliseconds patience) {
    const Deadline by = Deadline::in(patience);
    try {
        sys::Socket socket = sys::Socket::connect_tcp(host, port, by);
        socket.write(as_bytes("hello"), by);
        std::array<std::byte, 512> buffer;
        const std::size_t got = socket.read(buffer, by);
        say(std::string(reinterpret_cast<const char*>(buffer.data()), got));
        return got > 0 ? 0 : 3;
    } catch (const Error& error) {
        say(error.what());
        return 2;
    }
}

/// Asks `count` times on one connection, with pauses.
int chat(const std::string& host, std::uint16_t port, int count) {
    sys::Socket socket = sys::Socket::connect_tcp(host, port, Deadline::in(10s));
    std::array<std::byte, 512> buffer;
    for (int i = 0; i < count; ++i) {
        socket.write(as_bytes(std::to_string(i)), Deadline::in(20s));
        const std::size_t got = socket.read(buffer, Deadline::in(20s));
        say(std::string(reinterpret_cast<const char*>(buffer.data()), got));
        sys::pause(Deadline::in(5ms), {});
    }
    return 0;
}

int names(const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) {
        addrinfo hints = {}, *found = nullptr;
        hints.ai_family = AF_INET;
        hints.ai_socktype = SOCK_STREAM;
        if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
            say(host + " unknown");
            continue;
        }
        std::array<char, INET_ADDRSTRLEN> text = {};
        const auto* address = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
        ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
        say(host + " " + text.data());
        ::freeaddrinfo(found);
    }
    ifaddrs* list = nullptr;
    ::getifaddrs(&list);
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || one->ifa_addr->sa_family == AF_PACKET) continue;
        std::array<char, NI_MAXHOST> text = {};
        const bool v6 = one->ifa_addr->sa_family == AF_INET6;
        ::getnameinfo(one->ifa_addr, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), text.data(),
                      text.size(), nullptr, 0, NI_NUMERICHOST);
        say(format("{} {} {}", one->ifa_name, text.data(),
                   (one->ifa_flags & IFF_RUNNING) != 0 ? "running" : "down"));
    }
    ::freeifaddrs(list);
    std::set<std::string> listed;
    for (const auto& entry : fs::directory_iterator("/sys/class/net"))
        listed.insert(entry.path().filename().string());
    for (const std::string& name : listed) say("sys " + name);
    return 0;
}

/// Prove the token to a coordinator, as a launcher does.
int greet(const std::string& host, std::uint16_t port, JobSecret secret) {
    sys::Socket socket = sys::Socket::connect_tcp(host, port, Deadline::in(10s));
    FrameReader frames(kHandshakeLimit);
    const auto next = [&] {
        std::array<std::byte, 4096> buffer;
        for (;;) {
            if (const auto frame = frames.next()) return std::string(*frame);
            const std::size_t got = socket.read(buffer, Deadline::in(10s));
            if (got == 0) throw_error(Code::unavailable, "", "the coordinator hung up");
            frames.append({reinterpret_cast<const char*>(buffer.data()), got});
        }
    };
    SystemIds ids;
    Introduction introduction(std::move(secret), "node");
    std::string answer;
    append_frame(answer, introduction.answer(next(), ids));
    socket.write(as_bytes(answer), Deadline::in(10s));
    (void)introduction.verify(next());
    say("coordinated");
    return 0;
}

int act(const std::vector<std::string>& words) {
    const auto number = [&](std::size_t at) { return static_cast<int>(*parse_int(words[at])); };
    const auto port = [&](std::size_t at) { return static_cast<std::uint16_t>(number(at)); };
    try {
        if (words[0] == "serve") return serve(words[1], port(2), number(3));
        if (words[0] == "call") return call(words[1], port(2), milliseconds(number(3)));
        if (words[0] == "chat") return chat(words[1], port(2), number(3));
        if (words[0] == "greet") return greet(words[1], port(2), {words[3], words[4]});
        if (words[0] == "names") return names({words.begin() + 1, words.end()});
    } catch (const std::exception& error) {
        say(error.what());
    }
    return 4;
}

// ---- the world around them ----------------------------------------------------------------------

std::string own_path() {
    return fs::read_symlink("/proc/self/exe").string();
}

/// One program in a box.
class Program {
public:
    Program(const JobNetwork& network, const std::string& host, const fs::path& root,
            const std::vector<std::string>& words) {
        fs::create_directories(root);
        BoxPlan plan;
        plan.root = root.string();
        plan.host = host;
        plan.addresses = network.addresses();
        plan.binds.push_back({own_path(), "/opt/self", BoxBind::Access::read_only});
        plan.shared_memory = Bytes(1u << 20);
        plan.argv = {"/opt/self", "act"};
        plan.argv.insert(plan.argv.end(), words.begin(), words.end());
        plan.env = {"PATH=/usr/bin:/bin"};
        output_ = sys::make_pipe();
        box_ = std::make_unique<Box>(plan, output_.write.get(), network.namespaces());
        output_.write.close();
    }
    /// Until this was printed.
    bool says(const std::string& text) {
        while (said_.find(text) == std::string::npos) {
            if (!read(Deadline::in(20s))) return false;
        }
        return true;
    }
    /// To its end: what it printed.
    std::string finish() {
        while (read(Deadline::in(30s))) {
        }
        const Deadline by = Deadline::in(30s);
        while (!box_->on_control() && !by.passed())
            (void)sys::wait(box_->control_fd(), sys::Readiness::readable, by);
        const BoxEnd end = box_->finish();
        if (!end.exit) return said_ + end.failure;
        code = end.exit->shell_code();
        return said_;
    }
    std::string said() const { return said_; }
    int code = -1;

private:
    bool read(Deadline by) {
        if (sys::wait(output_.read.get(), sys::Readiness::readable, by) != sys::Waited::ready)
            return false;
        std::array<std::byte, 4096> buffer;
        const std::size_t got = sys::read_some(output_.read.get(), buffer);
        said_.append(reinterpret_cast<const char*>(buffer.data()), got);
        return got > 0;
    }
    sys::Pipe output_;
    std::unique_ptr<Box> box_;
    std::string said_;
};

/// One attempt.
class Attempt {
public:
    explicit Attempt(int hosts, const std::string& rendezvous = "null",
                     std::vector<std::string> before = {}) {
        fs::create_directories(folder());
        sys::write_file(folder() / "network.json",
                        format(R"({{"hosts": {}, "rendezvous": {}}})", hosts, rendezvous));
        sys::Command command;
        command.argv = std::move(before);
        for (const std::string& word : {own_path(), std::string("network"), folder().string()})
            command.argv.push_back(word);
        log_ = sys::open_write(dir_.path() / "log", O_APPEND);
        command.stdout_fd = command.stderr_fd = log_.get();
        process = sys::Child::spawn(command);
    }
    JobNetwork& join(const std::string& host, const std::string& daemon = "127.0.0.1:4545") {
        return *networks_.emplace_back(
            JobNetwork::join(folder() / "socket", host, daemon, Deadline::in(20s)));
    }
    Program start(JobNetwork& network, const std::string& host,
                  const std::vector<std::string>& words) {
        return {network, host, dir_.path() / format("box-{}", ++boxes_), words};
    }
    std::string run(JobNetwork& network, const std::string& host,
                    const std::vector<std::string>& words) {
        return start(network, host, words).finish();
    }
    std::string log() const { return sys::read_file(dir_.path() / "log"); }
    fs::path folder() const { return dir_.path() / "network"; }
    const fs::path& dir() const { return dir_.path(); }

    std::optional<sys::Child> process;

private:
    sys::TempDir dir_{"network-test"};
    sys::Fd log_;
    std::vector<std::unique_ptr<JobNetwork>> networks_;
    int boxes_ = 0;
};

bool can_network() {
    const ProbeResult probe = Probe().finish();
    if (probe.rung != Rung::namespaces) {
        MESSAGE("skipped: no namespaces here: " << probe.why);
        return false;
    }
    Attempt attempt(1);
    const auto joined = capture([&] { (void)attempt.join("algo-1"); });
    if (!joined.ok()) MESSAGE("skipped: no networks here: " << joined.error().what());
    return joined.ok();
}

bool eventually(const std::function<bool()>& fn) {
    const Deadline by = Deadline::in(20s);
    while (!by.passed()) {
        if (fn()) return true;
        sys::pause(Deadline::in(5ms), {});
    }
    return false;
}

/// Network namespaces that processes are in, and the interfaces of ours.
std::set<std::string> traces() {
    std::set<std::string> seen;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        std::error_code failed;
        const fs::path ns = fs::read_symlink(entry.path() / "ns/net", failed);
        if (!failed) seen.insert(ns.string());
    }
    for (const auto& entry : fs::directory_iterator("/sys/class/net"))
        seen.insert(entry.path().filename().string());
    return seen;
}

/// A daemon that answers every connection with one word.
struct Daemon {
    sys::Listener listener;
    TaskGroup tasks;
    explicit Daemon(const std::string& address = "127.0.0.1", std::uint16_t port = 0)
        : listener(sys::Listener::tcp(address, port)) {
        tasks.start("daemon", [this](const std::stop_token& stop) {
            while (std::optional<sys::Socket> peer = listener.accept(stop)) {
                std::array<std::byte, 64> buffer;
                (void)peer->read(buffer, Deadline::in(20s), stop);
                peer->write(as_bytes("the daemon"), Deadline::in(20s), stop);
            }
        });
    }
};

constexpr const char* kElastic =
    R"({"run_id": "j-test.1", "min_nodes": 1, "max_nodes": 4, "expected_nodes": 2,
        "max_restarts": 3, "checkpoints": false, "token": "secret"})";

}  // namespace

TEST_CASE("network: hosts know each other's names before anybody runs, and have one interface") {
    if (!can_network()) return;
    Attempt attempt(3);
    JobNetwork& first = attempt.join("algo-1");
    CHECK(first.interface() == "eth0");
    CHECK(first.rendezvous().empty());
    REQUIRE(first.addresses().size() == 3);
    const std::string text = attempt.run(
        first, "algo-1", {"names", "algo-1", "algo-2", "algo-3", "localhost", "algo-4"});
    CHECK(text ==
          "algo-1 10.84.0.2\nalgo-2 10.84.0.3\nalgo-3 10.84.0.4\nlocalhost 127.0.0.1\n"
          "algo-4 unknown\nlo 127.0.0.1 running\neth0 10.84.0.2 running\nlo ::1 running\n"
          "sys eth0\nsys lo\n");
    // A host that has not begun yet refuses, as one does whose program is not up: torch tries on.
    const std::string refused = attempt.run(first, "algo-1", {"call", "algo-3", "29500", "5000"});
    CHECK_MESSAGE(refused.find("refused") != std::string::npos, refused);
}

TEST_CASE("network: two attempts, two hosts each, one port, and everybody reaches their own") {
    if (!can_network()) return;
    std::array<Attempt, 2> attempts = {Attempt(2), Attempt(2)};
    std::vector<Program> servers;
    std::vector<std::pair<JobNetwork*, JobNetwork*>> pairs;
    for (Attempt& attempt : attempts) {
        pairs.emplace_back(&attempt.join("algo-1"), &attempt.join("algo-2"));
        servers.push_back(
            attempt.start(*pairs.back().first, "algo-1", {"serve", "0.0.0.0", "29500", "1"}));
        servers.push_back(
            attempt.start(*pairs.back().second, "algo-2", {"serve", "algo-2", "29500", "1"}));
    }
    for (Program& server : servers) REQUIRE(server.says("listening"));
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK(attempts[i].run(*pairs[i].second, "algo-2", {"call", "algo-1", "29500", "9000"}) ==
              "algo-1 heard hello\n");
        CHECK(attempts[i].run(*pairs[i].first, "algo-1", {"call", "algo-2", "29500", "9000"}) ==
              "algo-2 heard hello\n");
    }
    for (Program& server : servers) server.finish();
}

TEST_CASE("network: the daemon answers under its own address, and again after a restart") {
    if (!can_network()) return;
    Attempt attempt(1);
    std::optional<Daemon> daemon(std::in_place);
    const std::uint16_t port = daemon->listener.port();
    JobNetwork& network = attempt.join("algo-1", format("127.0.0.1:{}", port));
    const std::vector<std::string> words = {"call", "127.0.0.1", std::to_string(port), "9000"};
    CHECK(attempt.run(network, "algo-1", words) == "the daemon\n");
    daemon.reset();
    const std::string away = attempt.run(network, "algo-1", words);
    CHECK_MESSAGE(away.find("daemon\n") == std::string::npos, away);
    daemon.emplace("127.0.0.1", port);
    CHECK(attempt.run(network, "algo-1", words) == "the daemon\n");
}

TEST_CASE("network: a daemon on another address than loopback is reached there, too") {
    if (!can_network()) return;
    std::string address;
    ifaddrs* list = nullptr;
    REQUIRE(::getifaddrs(&list) == 0);
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
        if ((one->ifa_flags & IFF_LOOPBACK) != 0) continue;
        std::array<char, INET_ADDRSTRLEN> text = {};
        ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr,
                    text.data(), text.size());
        address = text.data();
    }
    ::freeifaddrs(list);
    if (address.empty() || address.starts_with("10.84.")) {
        MESSAGE("skipped: this machine has no other address");
        return;
    }
    Attempt attempt(1);
    Daemon daemon(address);
    const std::string port = std::to_string(daemon.listener.port());
    JobNetwork& network = attempt.join("algo-1", address + ":" + port);
    CHECK(attempt.run(network, "algo-1", {"call", address, port, "9000"}) == "the daemon\n");
}

TEST_CASE("network: a host whose link is down is silent for all, and goes on when it is back") {
    if (!can_network()) return;
    Attempt attempt(2);
    Daemon daemon;
    const std::string port = std::to_string(daemon.listener.port());
    JobNetwork& one = attempt.join("algo-1", "127.0.0.1:" + port);
    JobNetwork& two = attempt.join("algo-2");
    Program server = attempt.start(one, "algo-1", {"serve", "0.0.0.0", "29500", "1"});
    REQUIRE(server.says("listening"));
    Program chat = attempt.start(two, "algo-2", {"chat", "algo-1", "29500", "300"});
    REQUIRE(chat.says("heard 2\n"));
    one.set_link(false);
    const std::string before = chat.said();
    CHECK(attempt.run(two, "algo-2", {"call", "algo-1", "29500", "300"}).find("heard") ==
          std::string::npos);
    CHECK(attempt.run(one, "algo-1", {"call", "127.0.0.1", port, "300"}).find("daemon\n") ==
          std::string::npos);
    one.set_link(true);
    const std::string after = chat.finish();
    CHECK(chat.code == 0);
    CHECK(after.find("heard 299\n") != std::string::npos);
    CHECK(before.find("heard 299\n") == std::string::npos);
    CHECK(attempt.run(one, "algo-1", {"call", "127.0.0.1", port, "9000"}) == "the daemon\n");
}

TEST_CASE("network: who takes a host's place finds it empty, and the one before is cut off") {
    if (!can_network()) return;
    Attempt attempt(2);
    JobNetwork& one = attempt.join("algo-1");
    JobNetwork& old = attempt.join("algo-2");
    Program left = attempt.start(old, "algo-2", {"serve", "0.0.0.0", "29500", "1"});
    REQUIRE(left.says("listening"));
    CHECK(attempt.run(one, "algo-1", {"call", "algo-2", "29501", "5000"}).find("refused") !=
          std::string::npos);
    JobNetwork& young = attempt.join("algo-2");
    Program server = attempt.start(young, "algo-2", {"serve", "0.0.0.0", "29500", "1"});
    REQUIRE(server.says("listening"));
    CHECK(attempt.run(one, "algo-1", {"call", "algo-2", "29500", "9000"}) ==
          "algo-2 heard hello\n");
    CHECK(server.finish() == "listening\n");
    CHECK(left.said() == "listening\n");
    CHECK_THROWS_AS(old.set_link(false), Error);
    young.set_link(false);
    young.set_link(true);
    // A host nobody spoke of at the start is made when it comes.
    JobNetwork& third = attempt.join("algo-3");
    CHECK(third.addresses().size() == 3);
    CHECK(attempt.run(third, "algo-3", {"call", "algo-1", "29500", "5000"}).find("refused") !=
          std::string::npos);
}

TEST_CASE("network: hosts stay connected when the network process is killed") {
    if (!can_network()) return;
    Attempt attempt(2);
    JobNetwork& one = attempt.join("algo-1");
    JobNetwork& two = attempt.join("algo-2");
    attempt.process->signal(SIGKILL);
    attempt.process->wait(Deadline::in(20s));
    Program server = attempt.start(one, "algo-1", {"serve", "0.0.0.0", "29500", "1"});
    REQUIRE(server.says("listening"));
    CHECK(attempt.run(two, "algo-2", {"call", "algo-1", "29500", "9000"}) ==
          "algo-1 heard hello\n");
    CHECK_THROWS_AS(one.set_link(false), Error);
    CHECK_THROWS_AS((void)JobNetwork::join(attempt.folder() / "socket", "algo-1", "127.0.0.1:1",
                                           Deadline::in(50ms)),
                    Error);
}

TEST_CASE(
    "network: an elastic job's coordinator answers those who know the token, also restarted") {
    if (!can_network()) return;
    Attempt attempt(2, kElastic);
    JobNetwork& one = attempt.join("algo-1");
    CHECK(one.rendezvous() == "10.84.255.254:29400");
    CHECK(one.addresses().size() == 4);
    const std::vector<std::string> words = {"greet", "10.84.255.254", "29400", "j-test.1",
                                            "secret"};
    CHECK(attempt.run(one, "algo-1", words) == "coordinated\n");
    std::vector<std::string> stranger = words;
    stranger.back() = "guess";
    CHECK(attempt.run(one, "algo-1", stranger).find("does not accept our token") !=
          std::string::npos);
    const std::string log = attempt.log();
    const std::size_t at = log.find("coordinator_started pid=");
    REQUIRE(at != std::string::npos);
    const int pid = std::atoi(log.c_str() + at + 24);
    REQUIRE(pid > 1);
    ::kill(pid, SIGKILL);
    CHECK(attempt.run(one, "algo-1", words) == "coordinated\n");
    // It goes with its parent.
    const std::string again = attempt.log();
    const int second = std::atoi(again.c_str() + again.rfind("coordinator_started pid=") + 24);
    attempt.process->signal(SIGKILL);
    attempt.process->wait(Deadline::in(20s));
    CHECK(eventually([&] { return !fs::exists(format("/proc/{}", second)); }));
}

TEST_CASE("network: killing everything leaves neither namespace nor interface nor process") {
    if (!can_network()) return;
    std::set<std::string> before;
    CHECK(eventually([&] {  // what earlier tests left takes a moment to vanish
        const auto now = traces();
        return std::exchange(before, now) == now;
    }));
    fs::path folder;
    {
        Attempt attempt(3, kElastic);
        folder = attempt.folder();
        std::vector<Program> programs;
        for (const char* host : {"algo-1", "algo-2", "algo-3"}) {
            programs.push_back(
                attempt.start(attempt.join(host), host, {"serve", "0.0.0.0", "29500", "1"}));
            REQUIRE(programs.back().says("listening"));
        }
        CHECK(traces() != before);
    }
    CHECK(eventually([&] { return traces() == before; }));
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const auto words = capture([&] { return sys::read_file(entry.path() / "cmdline"); });
        if (!words.ok()) continue;
        CHECK(Result<std::string>(words).value().find(folder.string()) == std::string::npos);
    }
}

TEST_CASE("network: a machine that forbids networks says so to whoever joins") {
    if (::geteuid() != 0) return;
    Attempt attempt(2, "null",
                    {"unshare", "-Ur", "--fork", "--kill-child", "sh", "-c",
                     "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"", "sh"});
    try {
        (void)attempt.join("algo-1");
        MESSAGE("skipped: the limit could not be set");
    } catch (const Error& error) {
        const std::string what = error.what();
        if (error.code() == Code::unavailable) {
            MESSAGE("skipped: no user namespace to set a limit in: " << attempt.log());
            return;
        }
        CHECK_MESSAGE(what.find("create namespaces") != std::string::npos, what);
        CHECK_FALSE(attempt.process->try_wait().has_value());
    }
}

TEST_CASE("network: wrong hosts and addresses are refused by name") {
    if (!can_network()) return;
    Attempt attempt(1);
    CHECK_THROWS_WITH_AS(attempt.join("algo-0"), doctest::Contains("algo-0"), Error);
    CHECK_THROWS_WITH_AS(attempt.join("algo-1", "daemon.local:1"),
                         doctest::Contains("daemon.local:1"), Error);
    CHECK_NOTHROW(attempt.join("algo-1"));
}

TEST_CASE("network: a host costs milliseconds") {
    if (!can_network()) return;
    SystemClock clock;
    constexpr int kHosts = 16;
    const Monotonic begin = clock.monotonic();
    Attempt attempt(kHosts);
    JobNetwork& first = attempt.join("algo-1");
    const Monotonic up = clock.monotonic();
    for (int i = 2; i <= kHosts; ++i) attempt.join(format("algo-{}", i));
    const Monotonic joined = clock.monotonic();
    Program server = attempt.start(first, "algo-1", {"serve", "0.0.0.0", "29500", "1"});
    REQUIRE(server.says("listening"));
    const auto ms = [](Monotonic::duration time) {
        return std::chrono::duration<double, std::milli>(time).count();
    };
    MESSAGE(kHosts << " hosts and the process up after " << ms(up - begin) << " ms, a join takes "
                   << ms(joined - up) / (kHosts - 1) << " ms");
    CHECK(ms(joined - begin) / kHosts < 50);  // the target is 10; sanitizers and neighbours cost
}

TEST_CASE("network: an ordinary user gets the same networks") {
    if (::geteuid() != 0 || ::getenv("TY_UNPRIVILEGED") != nullptr) return;
    const sys::TempDir dir("network-test");
    ::chmod(dir.path().c_str(), 0755);
    const std::string copy = (dir.path() / "network_process_test").string();
    fs::copy_file("/proc/self/exe", copy);
    ::chmod(copy.c_str(), 0755);
    const std::vector<std::string> as_user = {"setpriv", "--reuid",        "65534", "--regid",
                                              "65534",   "--clear-groups", copy};
    std::vector<std::string> probe = as_user;
    probe.push_back("--version");
    const Result<sys::Output> able =
        capture([&] { return sys::run({.argv = probe}, Deadline::in(20s)); });
    if (!able.ok() || !Result<sys::Output>(able).value().exit.ok()) {
        MESSAGE("skipped: cannot become another user");
        return;
    }
    ::setenv("TY_UNPRIVILEGED", "1", 1);
    std::vector<std::string> words = as_user;
    words.push_back("--test-case=network: *");
    const sys::Output run = sys::run({.argv = words}, Deadline::in(200s));
    ::unsetenv("TY_UNPRIVILEGED");
    CHECK_MESSAGE(run.exit.ok(), run.text);
    MESSAGE(run.text.substr(run.text.size() > 1500 ? run.text.size() - 1500 : 0));
}

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words[0] == "box")
        leave(words.size() == 2 ? box_probe_main() : box_main());
    if (words.size() == 2 && words[0] == "network") {
        try {
            return network_main(words[1]);
        } catch (const std::exception& error) {
            sys::write_all(2, std::string(error.what()) + "\n");
            return 1;
        }
    }
    if (words.size() == 1 && words[0] == "coordinate") return coordinator_main();
    if (words.size() > 1 && words[0] == "act") leave(act({words.begin() + 1, words.end()}));
    ::unsetenv("TRAINYARD_LOCK_FD");
    return doctest::Context(argc, argv).run();
}
