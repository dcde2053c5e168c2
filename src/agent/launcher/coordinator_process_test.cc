// SPDX-License-Identifier: Apache-2.0
// Real coordinator processes (this binary, run again as `coordinate`) and many simulated agents: the
// real link of each, with workers that exist only as a number.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/launcher/frame_socket.h"
#include "agent/launcher/remote_link.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

namespace ty::agent {

namespace {

using rendezvous::Verdict;

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
    int port = 0;           ///< of the coordinator it hosts
    long coordinator = 0;   ///< its process

    const rendezvous::Assignment& newest() const { return starts.back(); }
    long heard(const std::string& what) const {
        return std::ranges::count(notes, what);
    }
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
        callbacks.on_gone = [&node](const std::string& why) { node.gone = why; };
        callbacks.on_note = [&node](const rendezvous::Effects::Note& note) {
            node.notes.push_back(note.what);
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
