// SPDX-License-Identifier: Apache-2.0
// The job's state behind rendezvous.h. Private to this folder.
//
// Everything a decision needs is counted as nodes change (Tally), so a message costs O(log nodes)
// and a thousand joins do not cost a million visits. Nodes change only inside change().
#pragma once

#include "rendezvous/rendezvous.h"

#include <list>
#include <set>

namespace ty::rendezvous {

/// Where a node stands in the lists ordered by when it was last heard.
enum class Watch {
    none,     ///< its silence means nothing (gone, or fenced long ago)
    lease,    ///< suspected when Policy::lease passes
    fencing,  ///< silent with workers: they are gone when fence + fence_margin has passed
};

struct Node {
    std::string id;
    NodeFacts facts;
    bool connected = false;
    bool silent = false;     ///< missed its lease
    bool restored = false;   ///< known from a snapshot, not heard since
    bool doubted = false;    ///< was silent on this connection: may have gone elsewhere
    bool dead = false;       ///< gone for certain, workers included
    bool member = false;     ///< of the newest generation
    bool leaving = false;    ///< said Leaving; never assigned again
    bool dismissed = false;  ///< was told Finish
    bool warm = false;
    bool succeeded = false;
    std::int64_t newest = 0;   ///< generation it was last told to start, by its own word
    std::int64_t running = 0;  ///< generation whose workers may still run there; 0: none
    int master_port = 0;
    std::uint64_t arrival = 0;
    Monotonic joined{}, last_heard{}, doubted_until{};
    Watch watch = Watch::none;
    std::list<Node*>::iterator place{};
};

struct Tally {
    int connected = 0;
    int ready = 0;       ///< may be assigned now
    int survivors = 0;   ///< ready members of the last generation
    int newcomers = 0;   ///< ready, not members
    int busy = 0;        ///< not silent, workers not reported as gone
    int usable = 0;      ///< ready or busy or about to reconnect, and staying
    int awaited = 0;     ///< members within their lease but without a connection
    int present = 0;     ///< members connected and heard
    int quorum = 0;      ///< members not known to be dead
    int unfinished = 0;  ///< members that have not said Succeeded
};

struct Reported {
    Cause cause = Cause::infrastructure;
    Failure failure;
    bool by_worker = false;  ///< came in a Failed, not from a lost node
};

/// Why the newest generation is being ended, or was.
struct Ending {
    Cause cause = Cause::infrastructure;
    std::string why;
    bool graceful = false;
    std::vector<Reported> failures;
    /// First failure that is no echo of another one; else the first.
    const Reported* root() const;
};

struct Drain {
    Cause cause = Cause::preemption;
    std::string why;
    Monotonic by{};
};

/// Group ranks with holes kept as empty strings; order_nodes without them.
std::vector<std::string> seat_nodes(const std::vector<std::string>& before,
                                    const std::vector<NodeFacts>& arrived);

struct Rendezvous::State {
    explicit State(Policy given) : policy(std::move(given)) {}

    Policy policy;
    Phase phase = Phase::gathering;
    std::int64_t generation = 0;
    std::map<std::string, Node> nodes;
    std::vector<std::pair<std::string, Assignment>> assigned;  ///< newest generation, by group rank
    std::vector<std::string> seats;                            ///< the same with holes
    std::map<Cause, int> spent;
    int worker_restarts = 0;  ///< Counting::torchrun's one count
    int port_retries = 0;     ///< in a row

    Ending ending;               ///< stopping, and what gathering follows
    std::optional<Drain> drain;  ///< draining
    down::Finish finish;         ///< over

    Monotonic now{};
    std::optional<Monotonic> gathering_since, min_reached, stopping_since, over_since;
    /// Nodes of a newest generation that nodes report and this coordinator's record lacks; 0: none.
    int unrecorded_nodes = 0;
    std::optional<Monotonic> hold_until;   ///< unknown generations may still run until then
    std::optional<Monotonic> limbo_until;  ///< a member came back without workers or explanation
    std::optional<Monotonic> growth_at;
    Monotonic last_newcomer{};
    bool lingered = false;  ///< 3 s after over
    bool snapshots_sent = false;
    bool noted_no_majority = false;
    std::uint64_t arrivals = 0;

    Tally tally;
    std::list<Node*> leases, fences;  ///< by last_heard
    Effects out;

    // ---- rendezvous.cc: nodes and messages
    Effects conclude();
    void send_snapshots();
    void clock(Monotonic at);
    Node* find(const std::string& id);
    void count(const Node& node, int sign);
    template <typename Fn>
    void change(Node& node, Fn&& fn) {
        count(node, -1);
        fn();
        count(node, +1);
    }
    void watch(Node& node, Watch where);
    bool hear(Node& node);
    void erase(const std::string& id);
    void send(const Node& node, Down message);
    void note(std::string what, std::vector<std::pair<std::string, std::string>> fields);
    bool is_active() const { return phase == Phase::running || phase == Phase::draining; }
    bool is_working(const Node& node) const;
    void evaluate();

    void on_hello(const std::string& id, const up::Hello& hello);
    void claim(Node& node, std::int64_t running);
    bool has_strayed(const Node& node, const up::Hello& hello) const;
    void hold(milliseconds duration);
    void adopt_generation(std::int64_t claimed, int of_nodes);
    void on(Node& node, const up::Stopped& message);
    void on(Node& node, const up::Failed& message);
    void on(Node& node, const up::Succeeded& message);
    void on(Node& node, const up::Leaving& message);
    void on(Node& node, const up::Checkpointed& message);
    void on(Node& node, const up::Warm& message);
    void on(Node& node, const up::Bye& message);
    void gone(Node& node, bool dead, const std::string& how);

    // ---- forming.cc: from gathering to running
    void try_start();
    bool is_clear() const;
    bool has_quorum() const;
    bool has_enough() const { return tally.ready >= policy.min_nodes; }
    milliseconds last_call() const;
    int capacity() const;
    bool fails_fast() const;
    void fail_waiting();
    void start();
    void assign(const std::vector<NodeFacts>& ordered, int restart_count, std::string address,
                int port);

    // ---- ending.cc: abort, budgets, the end
    void stop(Cause cause, std::string why, std::optional<Reported> failure);
    void lost_member(Node& node, FailureKind kind, const std::string& how);
    void settle();
    std::optional<int> budget(Cause cause) const;
    bool charge(Cause cause, const Reported* root);
    void end(Verdict verdict, Cause cause, std::string why, const Reported* root);
    void silence();
    void expire_limbo();

    // ---- resizing.cc: nodes that leave and nodes that come
    void start_drain(Cause cause, std::string why, Monotonic by);
    void call_checkpoint(const Node& node);
    void dismiss_leaving();
    void note_newcomer(const Node& node);
    void consider_growth();

    // ---- snapshot.cc
    std::string snapshot() const;
};

}  // namespace ty::rendezvous
