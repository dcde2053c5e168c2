// SPDX-License-Identifier: Apache-2.0
// deps: ty_base ty_sys ty_rendezvous ty_launcher
// From the last node's first byte until every node has its ranks: N simulated nodes, each with a
// connection, a handshake and a lease of its own, against a real coordinator process.
// Usage: bench_rendezvous_rate [NODES…] (256 and 1024). Prints one line of JSON per size.
#include "agent/launcher/coordinator/coordinator_host.h"
#include "agent/launcher/link/endpoints.h"
#include "agent/launcher/link/frame_socket.h"
#include "base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <sys/epoll.h>
#include <unistd.h>

namespace {

using namespace ty;
using namespace ty::agent;

constexpr int kRounds = 10;

rendezvous::Policy policy_for(int nodes) {
    rendezvous::Policy policy;
    policy.run_id = "bench";
    policy.min_nodes = policy.max_nodes = nodes;
    policy.lease = seconds(60);  // one process plays all nodes: beats are not what is measured
    policy.fence = seconds(70);
    return policy;
}

struct Node {
    FrameSocket socket;
    std::optional<Introduction> introduction;
    int step = 0;  ///< 0 awaits the greeting, 1 the proof, 2 messages
    bool welcome = false, started = false;
};

class Round {
public:
    Round(int count, const sys::fs::path& state) : policy_(policy_for(count)) {
        listener_ = bind_port(0, true);
        if (!start_listening(listener_.get())) throw_errno("listen");
        CoordinatorStart start;
        start.policy = policy_;
        start.secret = secret_;
        start.log = (state / "rendezvous.log").string();
        host_.emplace(poller_, "/proc/self/exe", std::move(start),
                      std::vector<int>{listener_.get()},
                      CoordinatorHost::Events{.on_note = [](const rendezvous::Effects::Note&) {},
                                              .on_hopeless =
                                                  [](const std::string& why) {
                                                      std::fprintf(stderr, "%s\n", why.c_str());
                                                      std::exit(1);
                                                  }});
        host_->launch();
        epoll_ = sys::Fd(::epoll_create1(EPOLL_CLOEXEC));
        nodes_.resize(static_cast<std::size_t>(count));
        for (int i = 0; i + 1 < count; ++i) {
            join(static_cast<std::size_t>(i));
            if (i % 128 == 127) serve([this, i] { return welcome_ >= i; });
        }
        serve([this, count] { return welcome_ == count - 1; });
    }

    double last_join() {
        const SystemClock clock;
        const Monotonic begin = clock.monotonic();
        join(nodes_.size() - 1);
        serve([this] { return started_ == static_cast<int>(nodes_.size()); });
        return std::chrono::duration<double, std::milli>(clock.monotonic() - begin).count();
    }
    int coordinator() const { return host_->pid(); }

private:
    void join(std::size_t index) {
        Node& node = nodes_[index];
        Dialling dialling = dial(*literal_address("127.0.0.1", bound_port(listener_.get())));
        if (dialling.error != 0) throw_error(Code::unavailable, "", "cannot connect");
        node.socket = FrameSocket(std::move(dialling.fd));
        node.socket.set_limit(kDownLimit);
        node.introduction.emplace(secret_, format("node-{}", index));
        epoll_event event = {};
        event.events = EPOLLIN;
        event.data.u64 = index;
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, node.socket.fd(), &event);
    }

    template <typename Done>
    void serve(Done done) {
        const Deadline by = Deadline::in(seconds(60));
        while (!done()) {
            epoll_event events[256];
            const int count = ::epoll_wait(epoll_.get(), events, 256, 1000);
            for (int i = 0; i < count; ++i) {
                const auto index = static_cast<std::size_t>(events[i].data.u64);
                Node& node = nodes_[index];
                if (node.socket.receive(1u << 20) != FrameSocket::State::open || by.passed()) {
                    throw_error(Code::unavailable, "", "node {} lost its coordinator", index);
                }
                while (const auto frame = node.socket.next()) take(index, node, *frame);
                node.socket.flush(clock_.monotonic());
            }
        }
    }

    void take(std::size_t index, Node& node, std::string_view frame) {
        if (node.step == 0) {
            node.socket.queue(node.introduction->answer(frame, ids_));
        } else if (node.step == 1) {
            node.introduction->verify(frame);
            rendezvous::up::Hello hello;
            hello.facts = {.id = format("node-{}", index),
                           .host = format("host-{}", index),
                           .address = "127.0.0.1",
                           .workers = 8,
                           .successor_port = 1};
            hello.master_port = 2;
            hello.policy = policy_;
            node.socket.queue(rendezvous::encode(rendezvous::Up(hello)));
        } else {
            const rendezvous::Down down = rendezvous::decode_down(frame);
            if (std::holds_alternative<rendezvous::down::Welcome>(down)) ++welcome_;
            if (std::holds_alternative<rendezvous::down::Start>(down)) ++started_;
        }
        node.step = std::min(node.step + 1, 2);
    }

    rendezvous::Policy policy_;
    JobSecret secret_{.run_id = "bench", .token = "secret"};
    SystemClock clock_;
    SystemIds ids_;
    sys::Poller poller_;
    sys::Fd listener_, epoll_;
    std::optional<CoordinatorHost> host_;
    std::vector<Node> nodes_;
    int welcome_ = 0, started_ = 0;
};

double in_megabytes(Bytes bytes) {
    return static_cast<double>(bytes.count()) / (1u << 20);
}

void measure(int nodes) {
    const sys::TempDir state;
    std::vector<double> times;
    double coordinator = 0, total = 0;
    for (int i = 0; i < kRounds; ++i) {
        Round round(nodes, state.path());
        times.push_back(round.last_join());
        const double of_coordinator = in_megabytes(sys::resident_memory(round.coordinator()));
        coordinator = std::max(coordinator, of_coordinator);
        total = std::max(total, of_coordinator + in_megabytes(sys::resident_memory(::getpid())));
    }
    std::ranges::sort(times);
    std::printf(
        "{\"nodes\": %d, \"last_join_to_all_started_ms\": %.1f, \"slowest_ms\": %.1f, "
        "\"coordinator_rss_mb\": %.1f, \"total_rss_mb\": %.1f}\n",
        nodes, times[times.size() / 2], times.back(), coordinator, total);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 2 && std::string_view(argv[1]) == "coordinate") return coordinator_main();
        if (argc == 1) {
            measure(256);
            measure(1024);
        }
        for (int i = 1; i < argc; ++i) measure(std::atoi(argv[i]));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
