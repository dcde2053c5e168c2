// SPDX-License-Identifier: Apache-2.0
// Real coordinator processes (this binary, run again as `coordinate`) and many simulated agents:
// the real link of each, with workers that exist only as a number.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/launcher/link/frame_socket.h"
#include "agent/launcher/link/remote_link.h"
#include "base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <deque>

#include <sys/socket.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using rendezvous::Verdict;

#ifdef __SANITIZE_ADDRESS__
constexpr int kSlowness = 5;
#else
constexpr int kSlowness = 1;
#endif

/// One agent: runs whatever it is told, at once.
struct Node {
    std::string id;
    std::unique_ptr<RemoteLink> link;
    std::int64_t running = 0;
    std::vector<rendezvous::Assignment> starts;
    std::vector<rendezvous::down::Abort> aborts;
    std::optional<rendezvous::down::Finish> finish;
    int fenced = 0;
    Monotonic started_at, fenced_at;
    std::string gone;
    std::vector<std::string> notes;
    int port = 0;          ///< of the coordinator it hosts
    long coordinator = 0;  ///< its process

    const rendezvous::Assignment& newest() const { return starts.back(); }
    /// Its process is gone, as by SIGKILL: nothing is said, the kernel closes everything.
    void die() {
        link.reset();
        running = 0;
    }
    long heard(const std::string& what) const { return std::ranges::count(notes, what); }
};

struct Fleet {
    sys::Poller poller;
    SystemClock clock;
    sys::TempDir state;
    rendezvous::Policy policy;
    std::string token = "secret";
    std::vector<std::unique_ptr<Node>> nodes;

    Fleet(int least, int most) {
        policy.run_id = "test";
        policy.min_nodes = least;
        policy.max_nodes = most;
        policy.last_call = milliseconds(100);
        policy.resize_debounce = milliseconds(50);
        policy.budgets[rendezvous::Cause::infrastructure] = 100;
        policy.max_restarts = 3;
    }
    /// A sanitizer makes everything slower; leases must not depend on it.
    void patient(int factor) {
        policy.lease *= factor;
        policy.fence *= factor;
        policy.fence_margin *= factor;
    }

    RemoteOptions options(const std::string& id, int port) {
        RemoteOptions options;
        options.endpoints = {{"127.0.0.1", static_cast<std::uint16_t>(port)}};
        options.token = token;
        options.policy = policy;
        options.facts.id = id;
        options.facts.host = id;
        options.facts.address = "127.0.0.1";
        options.state_dir = state.path();
        options.agent_binary = "/proc/self/exe";
        return options;
    }
    Node& add(RemoteOptions options) {
        Node& node = *nodes.emplace_back(std::make_unique<Node>());
        node.id = options.facts.id;
        LinkCallbacks callbacks;
        callbacks.on_message = [this, &node](const rendezvous::Down& down) { take(node, down); };
        callbacks.on_fenced = [this, &node](const std::string&) {
            ++node.fenced;
            node.fenced_at = clock.monotonic();
            if (node.running != 0) stop(node, node.running);
        };
        callbacks.on_gone = [&node](Gone, const std::string& why) { node.gone = why; };
        callbacks.on_note = [&node](const rendezvous::Effects::Note& note) {
            node.notes.push_back(note.what);
            if (note.what == "coordinator_started")
                node.coordinator = std::stol(note.fields[0].second);
            if (note.what == "coordinating") node.port = std::stoi(note.fields[0].second);
        };
        callbacks.make_hello = [&node] {
            rendezvous::up::Hello hello;
            hello.running = node.running;
            hello.master_port = 1234;
            hello.warm = true;
            return hello;
        };
        node.link = std::make_unique<RemoteLink>(poller, std::move(options), std::move(callbacks));
        node.link->open();
        return node;
    }
    Node& add(const std::string& id, int port) { return add(options(id, port)); }
    Node& operator[](std::size_t index) { return *nodes[index]; }

    void take(Node& node, const rendezvous::Down& down) {
        if (const auto* start = std::get_if<rendezvous::down::Start>(&down)) {
            node.running = start->assignment.generation;
            node.started_at = clock.monotonic();
            node.starts.push_back(start->assignment);
        } else if (const auto* abort = std::get_if<rendezvous::down::Abort>(&down)) {
            node.aborts.push_back(*abort);
            stop(node, abort->generation);
        } else if (std::holds_alternative<rendezvous::down::Welcome>(down)) {
            node.notes.emplace_back("welcome");
        } else if (const auto* finish = std::get_if<rendezvous::down::Finish>(&down)) {
            node.finish = *finish;
        }
    }
    static void stop(Node& node, std::int64_t generation) {
        node.running = 0;
        node.link->send(rendezvous::up::Stopped{generation, 1234});
    }

    /// Serve everybody until `done` or ten (fifty) seconds have passed.
    template <typename Done>
    bool until(Done done, milliseconds limit = milliseconds(15000)) {
        const Deadline by = Deadline::in(limit);
        while (!done()) {
            if (by.passed()) return false;
            poller.run_once(Deadline::earlier(by, Deadline::in(milliseconds(20))), {});
        }
        return true;
    }
    bool all_run(std::int64_t generation) {
        return until([&] {
            return std::ranges::all_of(nodes, [&](const auto& node) {
                return !node->link || node->running == generation;
            });
        });
    }
    void serve_for(milliseconds time) {
        until([] { return false; }, time);
    }
};

/// Forwards bytes between clients and a port until it is told to hold everything back.
class Proxy {
public:
    Proxy(sys::Poller& poller, int target) : poller_(poller), target_(target) {
        listener_ = bind_port(0, true);
        REQUIRE(start_listening(listener_.get()));
        poller_.add(listener_.get(), [this] { on_connect(); });
    }
    ~Proxy() { hold(); }
    int port() const { return bound_port(listener_.get()); }
    void hold() {
        poller_.remove(listener_.get());
        for (const auto& [fd, other] : pairs_) poller_.remove(fd);
    }
    void resume() {
        poller_.add(listener_.get(), [this] { on_connect(); });
        for (const auto& [fd, other] : pairs_) watch(fd, other);
    }

private:
    void on_connect() {
        sys::Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        Dialling server = dial(*literal_address("127.0.0.1", static_cast<std::uint16_t>(target_)));
        pairs_.emplace_back(client.get(), server.fd.get());
        pairs_.emplace_back(server.fd.get(), client.get());
        watch(client.get(), server.fd.get());
        watch(server.fd.get(), client.get());
        sockets_.push_back(std::move(client));
        sockets_.push_back(std::move(server.fd));
    }
    void watch(int from, int to) {
        poller_.add(from, [this, from, to] {
            char buffer[65536];
            const ssize_t got = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
            if (got > 0) {
                ::send(to, buffer, static_cast<std::size_t>(got), MSG_NOSIGNAL);
            } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
                poller_.remove(from);
                ::shutdown(to, SHUT_WR);
            }
        });
    }

    sys::Poller& poller_;
    int target_;
    sys::Fd listener_;
    std::vector<sys::Fd> sockets_;
    std::vector<std::pair<int, int>> pairs_;
};

/// Free now, and outside the range from which the kernel takes ports for outgoing connections.
int free_port() {
    for (int port = 21000 + ::getpid() % 5000; port < 32000; ++port) {
        const sys::Fd fd = bind_port(static_cast<std::uint16_t>(port), true);
        if (fd.is_open() && start_listening(fd.get())) return port;
    }
    FAIL("no free port");
    return 0;
}

std::size_t open_descriptors(long pid) {
    std::error_code failed;
    std::size_t count = 0;
    for (auto it = sys::fs::directory_iterator(format("/proc/{}/fd", pid), failed);
         !failed && it != sys::fs::directory_iterator(); it.increment(failed)) {
        ++count;
    }
    return count;
}

long milliseconds_between(Monotonic from, Monotonic to) {
    return std::chrono::duration_cast<milliseconds>(to - from).count();
}

}  // namespace

TEST_CASE("two agents form a generation over loopback and finish together") {
    Fleet fleet(2, 2);
    Node& first = fleet.add("a", 0);
    REQUIRE(first.port > 0);
    Node& second = fleet.add("b", first.port);
    REQUIRE(fleet.all_run(1));
    CHECK(first.newest().group_world_size == 2);
    CHECK(first.newest().group_rank + second.newest().group_rank == 1);
    CHECK(first.newest().master_address == "127.0.0.1");
    CHECK(first.newest().master_port == 1234);

    for (const auto& node : fleet.nodes) node->link->send(rendezvous::up::Succeeded{1});
    REQUIRE(fleet.until([&] { return first.finish && second.finish; }));
    CHECK(first.finish->verdict == Verdict::succeeded);
    second.link->close(milliseconds(1000));
    first.link->close(milliseconds(2000));
    CHECK(first.gone.empty());
    CHECK(first.fenced + second.fenced == 0);
    // Nothing is left that a later job of the same id could take for its own.
    CHECK(sys::fs::is_empty(fleet.state.path()));
}

TEST_CASE("256 agents form one generation") {
    Fleet fleet(256, 256);
    fleet.patient(8);
    Node& first = fleet.add("n0", 0);
    for (int i = 1; i < 255; ++i) fleet.add(format("n{}", i), first.port);
    REQUIRE(fleet.until([&] {
        return std::ranges::all_of(fleet.nodes,
                                   [](const auto& node) { return node->heard("welcome") > 0; });
    }));
    const Monotonic last_comes = fleet.clock.monotonic();
    fleet.add("n255", first.port);
    REQUIRE(fleet.all_run(1));
    MESSAGE("last of 256 came, all started: ",
            milliseconds_between(last_comes, fleet.clock.monotonic()), " ms");
    std::vector<int> ranks;
    for (const auto& node : fleet.nodes) ranks.push_back(node->newest().group_rank);
    std::ranges::sort(ranks);
    for (int i = 0; i < 256; ++i) CHECK(ranks[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a coordinator killed twenty times is no event for those who train") {
    Fleet fleet(3, 3);
    fleet.patient(4);
    Node& first = fleet.add("a", 0);
    fleet.add("b", first.port);
    fleet.add("c", first.port);
    REQUIRE(fleet.all_run(1));
    for (long kill = 1; kill <= 20; ++kill) {
        ::kill(static_cast<pid_t>(first.coordinator), SIGKILL);
        REQUIRE(fleet.until([&] {
            return std::ranges::all_of(fleet.nodes, [kill](const auto& node) {
                return node->heard("coordinator_back") >= kill;
            });
        }));
    }
    for (const auto& node : fleet.nodes) {
        CHECK(node->aborts.empty());
        CHECK(node->starts.size() == 1);
        CHECK(node->fenced == 0);
        CHECK(node->gone.empty());
        CHECK(node->running == 1);
    }
    // And it still coordinates: a failure ends the generation everywhere, the next one is number 2.
    fleet[1].link->send(rendezvous::up::Failed{1, rendezvous::Cause::application, {}});
    Fleet::stop(fleet[1], 1);
    REQUIRE(fleet.all_run(2));
}

TEST_CASE("a failure reported while the coordinator is away is heard when it is back") {
    Fleet fleet(2, 2);
    fleet.patient(4);
    Node& first = fleet.add("a", 0);
    Node& second = fleet.add("b", first.port);
    REQUIRE(fleet.all_run(1));
    ::kill(static_cast<pid_t>(first.coordinator), SIGSTOP);
    second.running = 0;
    second.link->send(rendezvous::up::Failed{1, rendezvous::Cause::application, {}});
    second.link->send(rendezvous::up::Stopped{1, 1234});
    ::kill(static_cast<pid_t>(first.coordinator), SIGKILL);
    REQUIRE(fleet.all_run(2));
    CHECK(first.newest().restart_count == 1);
}

TEST_CASE("a coordinator that hangs is replaced before anybody is fenced") {
    Fleet fleet(2, 2);
    fleet.patient(2);
    Node& first = fleet.add("a", 0);
    Node& second = fleet.add("b", first.port);
    REQUIRE(fleet.all_run(1));
    ::kill(static_cast<pid_t>(first.coordinator), SIGSTOP);
    REQUIRE(fleet.until([&] { return second.heard("coordinator_back") > 0; }));
    CHECK(first.fenced + second.fenced == 0);
    CHECK(first.aborts.size() + second.aborts.size() == 0);
}

TEST_CASE(
    "when the host is gone its successor coordinates, and the next generation does without it") {
    Fleet fleet(1, 3);
    Node& first = fleet.add("a", free_port());
    fleet.policy.last_call = milliseconds(100);
    const int port = first.port;
    fleet.add("b", port);
    fleet.add("c", port);
    REQUIRE(fleet.all_run(fleet[2].starts.empty() ? 1 : fleet[2].running));
    REQUIRE(fleet.until([&] {
        return std::ranges::all_of(fleet.nodes, [](const auto& node) {
            return node->running > 0 && node->newest().group_world_size == 3;
        });
    }));
    const std::int64_t before = fleet[1].running;
    const Monotonic died = fleet.clock.monotonic();
    first.die();
    REQUIRE(fleet.all_run(before + 1));
    MESSAGE("host killed, next generation runs: ",
            milliseconds_between(died, fleet.clock.monotonic()), " ms");
    CHECK(fleet[1].newest().group_world_size == 2);
    CHECK(fleet[1].heard("taking_over") + fleet[2].heard("taking_over") == 1);
    CHECK(fleet[1].fenced + fleet[2].fenced == 0);

    SUBCASE("and then the successor goes, too") {
        const std::size_t host = fleet[1].heard("taking_over") > 0 ? 1 : 2;
        fleet[host].die();
        REQUIRE(fleet.all_run(before + 2));
        CHECK(fleet[3 - host].newest().group_world_size == 1);
    }
    SUBCASE("and newcomers find the new one at the old place") {
        Node& late = fleet.add("d", port);
        REQUIRE(fleet.until([&] { return late.running == before + 2; }));
        CHECK(late.newest().group_world_size == 3);
    }
}

TEST_CASE("a host that leaves hands over; the others go on without it") {
    Fleet fleet(1, 3);
    Node& first = fleet.add("a", free_port());
    fleet.add("b", first.port);
    fleet.add("c", first.port);
    REQUIRE(fleet.until([&] {
        return std::ranges::all_of(fleet.nodes, [](const auto& node) {
            return node->running > 0 && node->newest().group_world_size == 3;
        });
    }));
    const std::int64_t before = first.running;
    first.link->send(rendezvous::up::Leaving{milliseconds(0), "maintenance"});
    REQUIRE(fleet.until([&] { return first.finish.has_value(); }));
    CHECK(first.finish->verdict == Verdict::drained);
    const Monotonic left = fleet.clock.monotonic();
    first.link->close(milliseconds(10000));
    CHECK(milliseconds_between(left, fleet.clock.monotonic()) < 1000 * kSlowness);
    first.die();
    REQUIRE(fleet.until([&] {
        return fleet[1].running > before && fleet[2].running == fleet[1].running &&
               fleet[1].newest().group_world_size == 2;
    }));
    CHECK(fleet[1].fenced + fleet[2].fenced == 0);
}

TEST_CASE("a first agent that comes again joins the one who took over") {
    Fleet fleet(1, 2);
    const int port = free_port();
    fleet.add("a", port).die();  // twice: the port is really free again
    fleet.nodes.clear();
    Node& first = fleet.add("a", port);
    Node& second = fleet.add("b", port);
    REQUIRE(
        fleet.until([&] { return second.running > 0 && second.newest().group_world_size == 2; }));
    const std::int64_t before = second.running;
    first.die();
    Node& again = fleet.add("a2", port);
    REQUIRE(fleet.until([&] {
        return again.running > before && again.running == second.running &&
               again.newest().group_world_size == 2;
    }));
    CHECK(again.gone.empty());
}

TEST_CASE("when all agents die at once the first to come again goes on counting") {
    Fleet fleet(2, 2);
    const int port = free_port();
    fleet.add("a", port);
    fleet.add("b", port);
    REQUIRE(fleet.all_run(1));
    for (const auto& node : fleet.nodes) node->die();
    fleet.nodes.clear();
    fleet.add("a2", port);
    fleet.add("b2", port);
    REQUIRE(fleet.all_run(2));
}

TEST_CASE("the smaller side of a split network is fenced before the larger starts anew") {
    Fleet fleet(1, 3);
    fleet.policy.lease = milliseconds(600);
    fleet.policy.fence = milliseconds(750);
    fleet.policy.fence_margin = milliseconds(200);
    Node& first = fleet.add("a", 0);
    Proxy proxy(fleet.poller, first.port);
    // Addresses nobody can reach: the successors are on the other side of the split as well.
    RemoteOptions second = fleet.options("b", first.port);
    second.facts.address = "240.0.0.1";
    fleet.add(second);
    RemoteOptions third = fleet.options("c", proxy.port());
    third.facts.address = "240.0.0.2";
    third.may_host = false;
    Node& minority = fleet.add(third);
    REQUIRE(fleet.until([&] {
        return std::ranges::all_of(fleet.nodes, [](const auto& node) {
            return node->running > 0 && node->newest().group_world_size == 3;
        });
    }));
    const std::int64_t before = first.running;
    proxy.hold();
    REQUIRE(
        fleet.until([&] { return first.running == before + 1 && fleet[1].running == before + 1; }));
    CHECK(first.newest().group_world_size == 2);
    REQUIRE(minority.fenced == 1);
    CHECK(minority.fenced_at < first.started_at);
    CHECK(minority.fenced_at < fleet[1].started_at);
    const std::size_t starts = minority.starts.size();
    // It tries to coordinate, but nobody follows.
    REQUIRE(fleet.until([&] { return minority.heard("taking_over") > 0; }));
    fleet.serve_for(milliseconds(1000));
    CHECK(minority.starts.size() == starts);
    CHECK(minority.running == 0);
    CHECK(first.running > before);
    // The network heals: it finds the others again.
    proxy.resume();
    REQUIRE(fleet.until(
        [&] { return minority.starts.size() > starts && minority.running == first.running; },
        milliseconds(30000)));
    CHECK(first.newest().group_world_size == 3);
}

TEST_CASE("an agent without the job's token is told so and gives up") {
    Fleet fleet(1, 2);
    Node& first = fleet.add("a", 0);
    REQUIRE(fleet.until([&] { return first.running == 1; }));
    fleet.token = "guess";
    Node& wrong = fleet.add("b", first.port);
    REQUIRE(fleet.until([&] { return !wrong.gone.empty(); }));
    CHECK(wrong.gone.find("token") != std::string::npos);
    CHECK(wrong.starts.empty());
    CHECK(first.running == 1);
    CHECK(first.aborts.empty());
}

TEST_CASE("a flood of strangers costs neither descriptors nor the others' time") {
    Fleet fleet(2, 2);
    Node& first = fleet.add("a", 0);
    REQUIRE(fleet.until([&] { return first.coordinator != 0 && first.heard("welcome") > 0; }));
    const auto target = *literal_address("127.0.0.1", static_cast<std::uint16_t>(first.port));
    const Bytes memory = sys::resident_memory(static_cast<int>(first.coordinator));

    // Silent ones, half a frame, a frame that never ends, noise, and a wish for four gigabytes.
    const std::vector<std::string> openings = {"",
                                               std::string("\x20\0", 2),
                                               std::string("\x20\0\0\0{", 5),
                                               "GET / HTTP/1.1\r\n\r\n",
                                               std::string("\xff\xff\xff\xff", 4),
                                               std::string("\2\0\0\0{}", 6)};
    std::deque<sys::Fd> strangers;
    std::size_t most_descriptors = 0;
    for (int i = 0; i < 10000; ++i) {
        Dialling stranger = dial(target);
        const std::string& opening = openings[static_cast<std::size_t>(i) % openings.size()];
        ::send(stranger.fd.get(), opening.data(), opening.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        strangers.push_back(std::move(stranger.fd));
        if (strangers.size() > 4000) strangers.pop_front();
        if (i % 50 == 0) fleet.poller.run_once(Deadline::in(milliseconds(0)), {});
        if (i % 1000 == 0) {
            most_descriptors = std::max(most_descriptors, open_descriptors(first.coordinator));
        }
    }
    const Monotonic before = fleet.clock.monotonic();
    fleet.add("b", first.port);
    REQUIRE(fleet.all_run(1));
    const long took = milliseconds_between(before, fleet.clock.monotonic());
    MESSAGE("a pair formed behind the flood: ", took, " ms; descriptors at most ",
            most_descriptors);
    CHECK(took < 1000 * kSlowness);
    CHECK(most_descriptors < 320);
    CHECK(open_descriptors(first.coordinator) < 320);
    CHECK(sys::resident_memory(static_cast<int>(first.coordinator)).count() <
          memory.count() + (64u << 20) * kSlowness);
    CHECK(first.fenced == 0);
}

}  // namespace ty::agent

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "coordinate") {
        try {
            return ty::agent::coordinator_main();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "coordinator: %s\n", error.what());
            return 1;
        }
    }
    return doctest::Context(argc, argv).run();
}
