// SPDX-License-Identifier: Apache-2.0
// The link to a coordinator over TCP; see link.h for what it promises. One connection at a time,
// seen by the launcher's poller through an epoll descriptor (the poller itself only knows
// "readable").
//
// link_remote.cc has the connection: dial, handshake, frames, beats, fence. succession.cc has the
// question whom to dial, and when to be the one who is dialled.
#pragma once

#include "agent/launcher/coordinator/coordinator_host.h"
#include "agent/launcher/link/endpoints.h"
#include "agent/launcher/link/frame_socket.h"
#include "agent/launcher/link/lease.h"
#include "agent/launcher/link/link.h"
#include "agent/launcher/link/signpost.h"
#include "agent/launcher/link/whereabouts.h"

#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ty::agent {

class RemoteLink final : public Link {
public:
    RemoteLink(sys::Poller& poller, RemoteOptions options, LinkCallbacks callbacks);
    ~RemoteLink() override;
    void open() override;
    void send(const rendezvous::Up& message) override;
    void close(milliseconds patience) override;

private:
    enum class Stage {
        idle,      ///< between two attempts
        dialling,  ///< connect in progress
        shaking,   ///< waiting for the greeting or for the proof
        greeting,  ///< Hello sent
        joined,
        over,  ///< closed, refused or given up
    };
    enum class Outcome {
        refused,   ///< nobody listens there: that agent is gone
        ended,     ///< closed by the other side
        silent,    ///< no answer in time, or no way there
        unsuited,  ///< answers, but not as our coordinator
    };
    struct Candidate {
        SocketAddress address;
        bool is_self = false;  ///< our turn to coordinate
    };

    // ---- link_remote.cc
    std::string timer(const char* what) const { return options_.facts.id + " link " + what; }
    void attempt(const Candidate& candidate);
    void on_io();
    void watch();
    bool on_connected();
    void read_frames();
    void take_frame(std::string_view frame);
    void take_message(const rendezvous::Down& message);
    void say_hello();
    void on_welcome(const rendezvous::down::Welcome& welcome);
    void beat();
    void check_fence();
    void arm_fence();
    void lift_fence();
    void end_attempt(Outcome outcome, const std::string& why);
    void let_go(Outcome outcome);
    void arm_patience(const std::string& what);
    void give_up(Gone how, const std::string& why);
    void note(const std::string& what,
              std::vector<std::pair<std::string, std::string>> fields = {});
    milliseconds patience() const;

    // ---- succession.cc
    void on_resolved();
    void begin();
    bool try_to_host();
    void host_endpoint();
    void start_hosting(std::vector<int> listeners, CoordinatorStart start,
                       const std::string& endpoint);
    std::vector<DeadNode> dead_nodes() const;
    bool all_refused(const std::vector<rendezvous::Assignment::Successor>& successors) const;
    void take_over();
    void yield();
    void remember_where() const;
    void drop_claim();
    void step_down(const std::string& address);
    void put_up_signpost();
    void follow_signpost(const std::string& address);
    void new_round();
    void add_successors(const std::vector<rendezvous::Assignment::Successor>& successors);
    void add_candidate(const SocketAddress& address);
    void next_candidate();
    void retry_later();
    void on_hopeless(const std::string& why);

    // Immutable.
    sys::Poller& poller_;
    RemoteOptions options_;
    LinkCallbacks callbacks_;
    JobSecret secret_;
    SystemClock clock_;
    SystemIds ids_;

    // The connection of this moment.
    Stage stage_ = Stage::idle;
    FrameSocket socket_;
    sys::Fd epoll_;
    std::uint64_t epoch_ = 0;  ///< counts connections: a callback may have replaced this one
    std::optional<Introduction> introduction_;
    bool greeted_ = false;
    Candidate candidate_;
    Monotonic hello_sent_;
    /// Silent connections we turned away from. Closing one would tell its coordinator that this
    /// agent is dead while its workers run; so they stay until we are welcome somewhere.
    std::vector<sys::Fd> abandoned_;

    // The membership.
    Lease lease_;
    Unconfirmed unconfirmed_;
    bool fenced_ = false, lost_ = false;
    std::optional<rendezvous::Verdict> verdict_;  ///< told to finish
    std::vector<rendezvous::Assignment::Successor> successors_;
    std::string snapshot_;  ///< what we would start from
    std::int64_t newest_ = 0;
    int newest_nodes_ = 0;

    // Whom to dial.
    std::unique_ptr<Resolver> resolver_;
    std::vector<std::vector<SocketAddress>> endpoints_;
    std::optional<SocketAddress> current_;   ///< where we were welcome last
    std::optional<SocketAddress> previous_;  ///< the same, before we took over
    std::string host_id_, current_host_;     ///< node ids of agents that host: dialled, joined
    std::set<std::string> refused_by_;       ///< addresses where nobody listens, in this outage
    bool coordinator_gone_ = false;          ///< its address refuses connections
    std::vector<Candidate> round_;
    std::size_t next_ = 0;
    milliseconds backoff_{5};
    std::minstd_rand jitter_;
    std::string last_trouble_;
    std::optional<Monotonic> denied_since_;

    // Being the coordinator's host.
    sys::Fd endpoint_listener_, successor_listener_;
    std::vector<rendezvous::Assignment::Successor> asked_first_;  ///< a restarted host's own log
    std::string found_snapshot_;
    bool recovering_ = false;
    sys::fs::path log_;
    sys::fs::path where_;  ///< Whereabouts; empty elsewhere than on the endpoint's machine
    std::unique_ptr<CoordinatorHost> host_;
    std::unique_ptr<Claim> claim_;  ///< while we coordinate somewhere else than everybody was told
    std::unique_ptr<Signpost> signpost_;  ///< while another one does
};

}  // namespace ty::agent
