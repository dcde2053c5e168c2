// SPDX-License-Identifier: Apache-2.0
// Who trains together, with which rank: one job-wide state machine without I/O.
//
// A coordinator (the launcher's own process for one node, a small process beside the first agent
// for several, later the daemon) feeds it what nodes say and what time it is; it answers with
// messages to send. It has no threads, sockets or clocks, so a thousand nodes and two thousand
// failures fit into a unit test.
//
// Safety, in the order of importance:
//   - never two generations at once: generation g+1 starts only when every node of g has said that
//     its workers are gone, is known dead (its agent's connection was closed by the kernel, and
//     agents take their workers along), or has been silent for Policy::fence, after which an agent
//     kills its own workers by itself;
//   - a side of a split network forms a generation only if it holds most of the last one's nodes;
//   - effects with `record` set are performed after the snapshot is on disk.
#pragma once

#include "base/time.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ty::rendezvous {

/// Why a generation ended. Each has its own job-wide budget.
enum class Cause { application, infrastructure, preemption, resize, hang };
std::string_view to_string(Cause cause);

/// What happened to the worker that failed first.
enum class FailureKind {
    exit_code,      ///< the program returned a code other than 0
    signal,         ///< killed by a signal nobody of us sent
    out_of_memory,  ///< the kernel's OOM killer
    disk_full,
    port_in_use,  ///< MASTER_PORT was taken between lease and use: retried without budget
    hang,         ///< no progress for Policy's hang timeout
    node_lost,    ///< its agent's connection closed
    node_silent,  ///< its agent missed its lease
    not_started,  ///< the program cannot be executed: no restart would change that
    not_ready,    ///< the node could not be prepared for this generation
};
std::string_view to_string(FailureKind kind);

struct Failure {
    FailureKind kind = FailureKind::exit_code;
    int rank = -1;  ///< global; -1: the whole node
    int local_rank = -1;
    std::string host;
    long pid = 0;
    int exit_code = 0;
    int signal = 0;
    std::string message;     ///< from the error file or the last line of stderr; may be empty
    bool secondary = false;  ///< looks like the echo of another rank's death ("connection reset")
};
/// "rank 3 (local rank 1 on node7, pid 4711) was killed by SIGKILL (signal 9): out of memory".
std::string sentence(const Failure& failure);

/// One agent: one launcher process on one machine.
struct NodeFacts {
    std::string id;            ///< unique per process: never reused
    std::optional<long> slot;  ///< stable place given from outside (node rank, Slurm, index)
    std::string host;          ///< for people, logs and natural ordering (node7 < node66)
    std::string address;       ///< IP literal under which the others reach it
    std::string role = "default";
    int workers = 1;         ///< local world size
    int successor_port = 0;  ///< where it would coordinate if it must; 0: it cannot
};

enum class ResizeWhen { checkpoint, now, never };
enum class Counting { by_cause, torchrun };

struct Policy {
    std::string run_id = "none";
    int min_nodes = 1;
    int max_nodes = 1;
    /// Nodes the scheduler says will come; a generation starts at once when they are there. 0:
    /// unknown.
    int expected_nodes = 0;
    /// From reaching min_nodes to starting with fewer than max_nodes.
    milliseconds last_call{2000};
    milliseconds join_timeout{600000};  ///< below min_nodes for so long: the job fails
    milliseconds lease{1250};        ///< silent for so long: suspected, the generation is aborted
    milliseconds fence{1500};        ///< silent for so long: an agent kills its own workers
    milliseconds fence_margin{250};  ///< what the coordinator waits on top of `fence`
    ResizeWhen resize = ResizeWhen::now;
    milliseconds resize_debounce{500};
    milliseconds warm_timeout{20000};  ///< newcomers may take so long to start their interpreters
    milliseconds resize_deadline{600000};  ///< growth waits for a checkpoint at most so long
    Counting counting = Counting::by_cause;
    int max_restarts = 0;  ///< the budget of Cause::application
    /// Budgets of the other causes; absent: hang as application, the others unlimited. While
    /// max_restarts is 0, a job that has fallen below min_nodes fails instead of waiting.
    std::map<Cause, int> budgets;
    /// Successors must gather most of the last generation's nodes before they form a new one.
    bool needs_majority = false;
    /// The coordinator belongs to no node, nobody succeeds it, and somebody else ends it. So it
    /// waits for nodes as long as that takes, needs no majority, and when the job is over it stays
    /// to tell whoever comes late.
    bool standing = false;
};

/// What a node is told to run.
struct Assignment {
    std::int64_t generation = 0;  ///< from 1, never reused within a job
    int restart_count = 0;        ///< TORCHELASTIC_RESTART_COUNT
    int group_rank = 0, group_world_size = 1;
    int first_rank = 0, world_size = 1;
    int first_role_rank = 0, role_world_size = 1;
    std::string master_address;
    int master_port = 0;
    struct Successor {
        std::string id, address;
        int port = 0;
    };
    std::vector<Successor> successors;  ///< who coordinates next, in order; at most three
};

// ---- node -> coordinator -----------------------------------------------------------

namespace up {
/// First message of a connection, new or after a reconnect.
struct Hello {
    NodeFacts facts;
    /// Generation whose workers still run here; 0: none. A node whose workers have all succeeded
    /// says that generation until it is told to stop, and repeats Succeeded after a reconnect.
    std::int64_t running = 0;
    int master_port = 0;           ///< leased for the next generation, should rank 0 land here
    bool warm = false;             ///< interpreters stand by
    std::optional<Policy> policy;  ///< must agree with the coordinator's in run id and size
    /// The newest generation this node was ever told to start and its group_world_size; 0: none.
    /// Lets a coordinator with an old record find out that it has one.
    std::int64_t newest = 0;
    int newest_nodes = 0;
};
struct Beat {
    std::int64_t sequence = 0;
};
/// No worker of `generation` runs here any more; ready for the next one.
struct Stopped {
    std::int64_t generation = 0;
    int master_port = 0;
};
struct Failed {
    std::int64_t generation = 0;
    Cause cause = Cause::application;
    Failure failure;
};
struct Succeeded {
    std::int64_t generation = 0;
};
/// This node goes away at `deadline` from now.
struct Leaving {
    milliseconds deadline{0};
    std::string why;
};
/// A complete checkpoint appeared after CheckpointNow; this node's workers are stopped already.
struct Checkpointed {
    std::int64_t generation = 0;
    std::string what;
};
struct Warm {};
/// Last word: workers are gone and the agent ends.
struct Bye {};
}  // namespace up
using Up = std::variant<up::Hello, up::Beat, up::Stopped, up::Failed, up::Succeeded, up::Leaving,
                        up::Checkpointed, up::Warm, up::Bye>;

// ---- coordinator -> node -----------------------------------------------------------

enum class Verdict { succeeded, failed, drained };
std::string_view to_string(Verdict verdict);

namespace down {
struct Welcome {
    milliseconds lease{1250}, fence{1500};
};
/// It belongs to another job, or was started for another size: trying again changes nothing.
struct Refused {
    std::string why;
};
struct Start {
    Assignment assignment;
};
/// Kill the workers of `generation` and answer Stopped. `graceful`: programs that catch SIGTERM get
/// the grace the node's options allow, others die at once.
struct Abort {
    std::int64_t generation = 0;
    Cause cause = Cause::application;
    std::string why;
    bool graceful = false;
};
struct CheckpointNow {
    std::int64_t generation = 0;
    milliseconds deadline{0};
    Cause cause = Cause::preemption;
    std::string why;
};
/// The job is over for this node: stop what runs, print `why`, leave.
struct Finish {
    Verdict verdict = Verdict::succeeded;
    Cause cause = Cause::application;
    std::string why;  ///< the root cause in one sentence
    std::optional<Failure> root;
};
struct BeatAnswer {
    std::int64_t sequence = 0;
};
/// For successors only: what a new coordinator starts from.
struct Snapshot {
    std::string state;
};
}  // namespace down
using Down = std::variant<down::Welcome, down::Refused, down::Start, down::Abort,
                          down::CheckpointNow, down::Finish, down::BeatAnswer, down::Snapshot>;

/// Compact JSON, one message per frame. decode throws invalid on anything else: unknown kinds,
/// missing members, numbers out of range, ids and texts longer than 4 KiB.
std::string encode(const Up& message);
std::string encode(const Down& message);
Up decode_up(std::string_view frame);
Down decode_down(std::string_view frame);

struct Effect {
    std::string to;  ///< node id; empty: only `record`
    Down message;
};
struct Effects {
    /// The snapshot must be durable before any message goes out.
    bool record = false;
    std::vector<Effect> messages;
    /// For --events and logs: {"what", {key, value}…}, in order.
    struct Note {
        std::string what;
        std::vector<std::pair<std::string, std::string>> fields;
    };
    std::vector<Note> notes;
};

enum class Lost { closed, silent };

enum class Phase { gathering, running, draining, stopping, over };
std::string_view to_string(Phase phase);

class Rendezvous {
public:
    struct State;  ///< this folder's own

    explicit Rendezvous(Policy policy);
    /// From a snapshot of another coordinator of the same job. Nodes of the running generation
    /// count as alive until Policy::lease from `now` has passed without a Hello from them. Throws
    /// corrupt when the text is no snapshot.
    static Rendezvous restore(std::string_view snapshot, Policy policy, Monotonic now);

    /// A message of a node. Unknown nodes may only say Hello; anything else is ignored with a note.
    Effects receive(const std::string& node, const up::Hello& hello, Monotonic now);
    Effects receive(const std::string& node, const Up& message, Monotonic now);
    /// The node's connection ended. `closed`: by the peer's kernel (end of file, reset), so agent
    /// and workers are gone. `silent`: for another reason (ETIMEDOUT, our own choice); the node may
    /// live and has until its lease ends to come back.
    Effects lose(const std::string& node, Monotonic now, Lost how = Lost::closed);
    /// Call at next_deadline() or later; earlier calls change nothing.
    Effects tick(Monotonic now);
    /// never() when only messages can change anything.
    Deadline next_deadline() const;

    /// Everything a successor needs, as JSON text; O(nodes of the generation).
    std::string snapshot() const;

    Phase phase() const;
    std::int64_t generation() const;  ///< of the newest assignment; 0 before the first
    /// Over and every node has been told or is gone: the coordinator may end.
    bool is_done() const;
    /// What a connected node or a member has said of itself.
    std::optional<NodeFacts> facts(const std::string& node) const;

    struct View {
        Phase phase;
        std::int64_t generation;
        std::size_t connected;
        std::vector<std::pair<std::string, Assignment>> members;  ///< by group rank
        std::map<Cause, int> spent;
    };
    View view() const;

private:
    struct StateDeleter {
        void operator()(State* state) const;
    };
    explicit Rendezvous(State* state);
    std::unique_ptr<State, StateDeleter> state_;
};

/// Group ranks for the next generation. `before`: ids of the last generation by group rank (empty
/// strings are holes). Survivors keep their order; newcomers fill the holes, then the end: slot ids
/// before host names, numbers inside names compared as numbers, then arrival. `arrived`: in order.
/// Returns ids by group rank; a pure function of its arguments.
std::vector<std::string> order_nodes(const std::vector<std::string>& before,
                                     const std::vector<NodeFacts>& arrived);

/// "node7" < "node66"; digits compare by value, the rest bytewise.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace ty::rendezvous
