// SPDX-License-Identifier: Apache-2.0
// What a job is and what happens next. AWS-free and HTTP-free: words here are the product's own,
// the api module translates. `step` is the whole life cycle as a pure function; JobService is the
// door.
#pragma once

#include "base/id.h"
#include "base/random.h"
#include "base/time.h"
#include "engine/engine.h"
#include "plan/plan.h"
#include "store/store.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace ty::jobs {

enum class Status { in_progress, completed, failed, stopping, stopped, deleting };
/// Names and order as SageMaker's SecondaryStatus; see to_string.
enum class Secondary {
    starting,
    downloading,
    training,
    uploading,
    stopping,
    stopped,
    max_runtime_exceeded,
    completed,
    failed,
    interrupted,
    max_wait_time_exceeded,
    updating,
    restarting,
    pending,
};
std::string_view to_string(Status status);        ///< "InProgress"
std::string_view to_string(Secondary secondary);  ///< "MaxRuntimeExceeded"
std::optional<Status> parse_status(std::string_view text);
bool is_terminal(Status status);

struct Transition {
    Secondary status = Secondary::starting;
    Instant start;
    std::optional<Instant> end;
    std::string message;
};

/// What running the job takes; the client's own document is kept beside it verbatim.
struct JobSpec {
    std::string name;
    std::string region, account;  ///< uniqueness is per account and region, case-insensitive
    std::string arn;
    plan::NodePlan node;     ///< template: everything that is equal on all hosts, without secrets
    int instance_count = 1;  ///< of all groups; what an elastic job starts with
    bool spot = false;       ///< lost machines are replaced until max_wait is over
    std::optional<seconds> max_wait;  ///< from creation, waiting included; spot only
    int retries = 0;                  ///< further attempts after an error of ours
    std::string warning;  ///< said in the job's log and first status message; may be empty
};

/// A fault that is asked for, so that a job can prove that it survives one.
struct Fault {
    enum class Kind { notice, kill, freeze, partition } kind = Kind::notice;
    std::string host;            ///< "algo-2"; empty: any that runs, drawn from `seed`
    milliseconds time{120'000};  ///< of notice, or how long a freeze or partition lasts
    std::string why = "interruption requested";
};
/// Faults again and again, at exponentially distributed intervals.
struct FaultSchedule {
    Fault fault;
    milliseconds every{0};  ///< mean
    std::uint64_t seed = 0;
    std::uint64_t drawn = 0;  ///< random numbers used so far
    Instant next;
};

/// One agent of an attempt. Its name is the host's, or "algo-2~3" for the third agent that is host
/// algo-2 within one elastic attempt.
struct Node {
    std::string host;        ///< "algo-2"
    Instant wanted;          ///< when it was decided to have it
    std::int64_t epoch = 0;  ///< seconds; makes its log stream's name unique among all of its host
    std::uint64_t seen = 0;  ///< highest event seq applied
    std::optional<plan::Phase> phase;
    std::optional<plan::Outcome> finished;
    std::optional<plan::Collected> collected;
    std::vector<plan::Command> commands;  ///< numbered from 1; never change once given
    std::optional<Instant> leave_by;      ///< it was interrupted: killed when it stays longer
    std::string killed;     ///< why it is to be killed without a word; empty: it is not
    bool launched = false;  ///< it was started, or at least may run
    bool released = false;
};

struct Attempt {
    AttemptId id;
    int number = 1;
    std::map<std::string, Node> nodes;  ///< by name; an elastic attempt forgets released ones
    std::map<std::string, int> agents;  ///< elastic: host -> agents it has had
    std::string interrupted;            ///< why it ends before the job does; empty: it does not
    std::string first_failed;           ///< node whose outcome explains the job's
    std::optional<Instant> downloading, training;  ///< when the job first was, in this attempt
    std::optional<Instant> ended;       ///< nothing of it is wanted any more, but its release
    std::optional<Instant> not_before;  ///< for what comes next: another attempt, further nodes
    bool launched = false;              ///< agents were started, or at least may run
    bool released = false;
};

/// What a job's instances did with their time: instance-time, but `waiting`, which is time in which
/// the job had no instance.
struct Ledger {
    milliseconds useful{0};   ///< training that is in the result or in a complete checkpoint
    milliseconds lost{0};     ///< training that had to be done again
    milliseconds restart{0};  ///< from having an instance to its program's start
    milliseconds idle{0};     ///< an instance, but no program: between generations, storing results
    milliseconds checkpoint{0};  ///< from a notice to the instance's end; restoring one
    milliseconds waiting{0};
    milliseconds unsettled{0};  ///< training since the last checkpoint: useful or lost, later
    int interruptions = 0, restarts = 0;
    /// Instance-time that is paid for: all but waiting.
    milliseconds billed() const { return useful + lost + restart + idle + checkpoint + unsettled; }
    Ledger& operator+=(const Ledger& other);
    bool operator==(const Ledger&) const = default;
};

/// Training of one node that no checkpoint holds yet.
struct Stretch {
    Instant from, to;
    std::int64_t generation = 0;  ///< of an elastic job's workers
    bool ended_badly = false;     ///< lost, unless a checkpoint of its generation is still reported
    bool operator==(const Stretch&) const = default;
};
/// What the ledger remembers of a node of the current attempt.
struct LedgerNode {
    enum class Doing { nothing, starting, training, idle, checkpointing } doing = Doing::nothing;
    Instant since;             ///< it does that
    Instant marked;            ///< its last event
    std::uint64_t seen = 0;    ///< seq of that
    std::size_t commands = 0;  ///< read so far
    bool interrupted = false;
    std::int64_t generation = 0;
    bool running = false;  ///< that generation of its workers
    std::vector<Stretch> unsettled;
    bool operator==(const LedgerNode&) const = default;
};
/// Kept with the job (ledger.h): sums of what is closed, and what is open since when.
struct LedgerState {
    Ledger sums;  ///< without what `nodes` and `waiting` have open
    std::map<std::string, LedgerNode> nodes;
    std::optional<Instant> waiting;  ///< no instance since then
    Instant last_end;                ///< of an instance
    int attempts = 0;
    bool interrupted = false;  ///< the current attempt; it is counted
    bool closed = false;       ///< the job is over
    bool operator==(const LedgerState&) const = default;
};

struct Job {
    JobId id;
    std::int64_t version = 1;
    JobSpec spec;
    std::string document;  ///< CreateTrainingJob request, byte for byte
    Status status = Status::in_progress;
    std::vector<Transition> transitions;  ///< contiguous; never empty
    std::string failure_reason;
    Instant created, modified;
    std::optional<Instant> training_start, training_end;
    bool stop_requested = false;
    bool model_uploaded = false;
    std::vector<Attempt> attempts;  ///< the last few, oldest first
    milliseconds trained{0};        ///< first Downloading to end, of all attempts that ended
    milliseconds ran{0};            ///< the same from Training on: what MaxRuntime counts
    int retried = 0;                ///< of spec.retries
    int fruitless = 0;              ///< losses in a row before anything trained
    std::int64_t last_epoch = 0;    ///< newest Node::epoch
    bool max_wait_over = false;     ///< it stops because of spec.max_wait
    int instances = 0;              ///< wanted now: spec.instance_count until scaled
    std::optional<FaultSchedule> faults;
    std::optional<plan::CheckpointCommitted> checkpoint;  ///< the newest
    std::optional<plan::Progress> progress;               ///< newest of any node
    LedgerState ledger;

    Secondary secondary() const { return transitions.back().status; }
    /// Whole seconds from the first Downloading to the end, summed over the attempts, at least 1;
    /// nullopt while running or when it never got so far.
    std::optional<std::int64_t> training_seconds() const;
};

// ---- the pure life cycle
// -------------------------------------------------------------------------

struct Created {};
struct StopRequested {};
struct AgentEvent {
    AttemptId attempt;
    plan::Event event;
};
struct AgentGone {
    AttemptId attempt;
    std::string host;
    std::string ending;
};
struct LaunchFailed {
    AttemptId attempt;
    std::string reason;
    std::vector<std::string> nodes = {};  ///< those that were tried; empty: all not launched
};
struct Queued {
    AttemptId attempt;
    int running = 0;
};  ///< no free slot: so many jobs run
struct Placed {
    AttemptId attempt;
    std::vector<std::string> nodes = {};  ///< empty: all
};                                        ///< the engine took the launch
struct Released {
    AttemptId attempt;
    std::string node = {};  ///< empty: the whole attempt
};                          ///< nothing of it is left
struct FaultRequested {
    Fault fault;
};
struct FaultsScheduled {
    std::optional<FaultSchedule> schedule;  ///< nullopt: no more of them
};
struct ScaleRequested {
    int instances = 0;
};
struct TimePassed {};  ///< next_due() has come
using Stimulus =
    std::variant<Created, StopRequested, AgentEvent, AgentGone, LaunchFailed, Queued, Placed,
                 Released, FaultRequested, FaultsScheduled, ScaleRequested, TimePassed>;

struct Launch {
    AttemptId attempt;
};  ///< start every node of it that is not launched yet
struct Release {
    AttemptId attempt;
};
struct ReleaseNode {
    AttemptId attempt;
    std::string node;
};
struct Kill {
    AttemptId attempt;
    std::string node;
};
struct Wake {
    AttemptId attempt;
};  ///< a command is waiting: answer held syncs now
using Effect = std::variant<Launch, Release, ReleaseNode, Kill, Wake>;

struct Stepped {
    Job job;
    std::vector<Effect> effects;
};
/// One move of the state machine. Pure; replaying an old stimulus changes nothing. `version` grows
/// by one exactly when something changed.
Stepped step(Job job, const Stimulus& stimulus, Instant now);
/// When something happens to the job without anybody saying a word: MaxWaitTime, a scheduled fault.
std::optional<Instant> next_due(const Job& job);
/// True when the agents of the current attempt that still run are to stop.
bool wants_stop(const Job& job);
/// What is left of spec.node.limits.max_runtime for a node wanted at that moment.
milliseconds runtime_left(const Job& job, Instant wanted);
/// The ledger up to `now`; final for a terminal job.
Ledger ledger_of(const Job& job, Instant now);
Ledger ledger_of(const LedgerState& state, Instant now);
/// Whole seconds that are paid for: training_seconds() at `ratio`, the spot price divided by the
/// on-demand price where the job is spot and prices are known, else 1. At least 1; 0 while running.
std::int64_t billable_seconds(const Job& job, double ratio);
/// The host names of a job's attempt: "algo-1" … sorted lexicographically.
std::vector<std::string> hosts_of(const JobSpec& spec);

// ---- the service
// ---------------------------------------------------------------------------------

struct Tag {
    std::string key, value;
};

struct ListQuery {
    std::string region;
    std::optional<Instant> created_after, created_before, modified_after, modified_before;
    std::string name_contains;  ///< case-insensitive
    std::optional<Status> status;
    enum class SortBy { name, created, status } sort_by = SortBy::created;
    enum class Order { ascending, descending } order = Order::descending;
    std::size_t limit = 10;
    std::string token;  ///< from Page::next; throws invalid when forged
};
struct Summary {
    std::string name, arn;
    Instant created, modified;
    std::optional<Instant> ended;
    Status status = Status::in_progress;
    Secondary secondary = Secondary::starting;
};
struct Page {
    std::vector<Summary> rows;
    std::string next;  ///< empty when done
};

/// Secrets and URLs the plans need; given by the composition root.
struct Placing {
    std::string control_plane;  ///< URL agents use
    std::function<plan::Credentials(const AttemptId&)>
        credentials;                ///< derived, stable per attempt
    int max_running = 0;            ///< jobs at a time, others wait; 0: max(2, cpus)
    milliseconds exit_grace{3000};  ///< for a finished agent to end before it is killed
    milliseconds clock_check{
        1000};  ///< how often due times are compared with a clock that may jump
};

class JobService {
public:
    /// Starts the reconciler: recovers jobs of an earlier run, adopts their agents.
    JobService(store::Db& db, engine::Engine& engine, Clock& clock, Ids& ids, Placing placing);
    ~JobService();

    /// Durable on return. Throws conflict "ResourceInUse" when the name is taken, unless
    /// `idempotency` (the client's invocation id) created it: then the same job is returned.
    Job create(JobSpec spec, std::string document, std::vector<Tag> tags,
               const std::string& idempotency);
    std::optional<Job> find(const std::string& region, const std::string& name) const;
    Page list(const ListQuery& query) const;
    /// For Search: all jobs of a region, newest first, in batches.
    std::vector<Job> all(const std::string& region, std::size_t offset, std::size_t limit) const;
    /// Every job of a region that carries `tag` (nullopt: all of them), oldest first, with the
    /// value of its tag `by` (empty: it has none). Reads in batches; `each` holds no transaction.
    void visit(const std::string& region, const std::optional<Tag>& tag, const std::string& by,
               const std::function<void(const Job&, const std::string& value)>& each) const;
    /// Throws not_found, invalid ("already in status X").
    void request_stop(const std::string& region, const std::string& name);
    /// Throws not_found; invalid when the job is not running, the host is none of its, or the
    /// fault needs a network of its own that a single instance has not.
    void inject(const std::string& region, const std::string& name, const Fault& fault);
    /// As above, again and again until the job ends; nullopt ends it.
    void schedule_faults(const std::string& region, const std::string& name,
                         const std::optional<FaultSchedule>& schedule);
    /// Elastic jobs: how many instances they are to have from now on. Throws not_found; invalid
    /// ("this job is not elastic", outside its range, not running).
    void scale(const std::string& region, const std::string& name, int instances);
    /// Terminal jobs only; throws invalid otherwise.
    void remove(const std::string& region, const std::string& name);
    /// Replace the stored document (UpdateTrainingJob).
    void update_document(const std::string& region, const std::string& name, std::string document);

    void add_tags(const std::string& arn,
                  const std::vector<Tag>& tags);  ///< replaces equal keys; max 50
    void delete_tags(const std::string& arn, const std::vector<std::string>& keys);
    std::vector<Tag> list_tags(const std::string& arn) const;

    // -- the agent's side
    /// Attempt and host of a bearer token; nullopt when unknown or over.
    struct AgentIdentity {
        AttemptId attempt;
        std::string host;
        std::string region, job_name;
    };
    std::optional<AgentIdentity> authenticate(const std::string& token) const;
    plan::NodePlan plan_for(const AgentIdentity& agent) const;
    /// Store events durably, wake the reconciler, then wait up to request.wait for a command.
    plan::SyncReply sync(const AgentIdentity& agent, const plan::SyncRequest& request,
                         const std::stop_token& stop);

    /// Secret for an access key handed to a running attempt; nullopt otherwise.
    std::optional<plan::Credentials> attempt_credentials(const std::string& access_key) const;

    /// Called after every committed change of a job, on the reconciler's thread.
    void on_change(std::function<void(const Job&)> fn);

    struct Counters {
        std::uint64_t created = 0, completed = 0, failed = 0, stopped = 0, running = 0;
    };
    Counters counters() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::jobs
