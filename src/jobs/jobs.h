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
    plan::NodePlan node;  ///< template: everything that is equal on all hosts, without secrets
    int instance_count = 1;
    std::string warning;  ///< said in the job's log and first status message; may be empty
};

struct Attempt {
    AttemptId id;
    int number = 1;
    std::map<std::string, std::uint64_t> seen;  ///< host -> highest event seq applied
    std::map<std::string, plan::Outcome> finished;
    std::map<std::string, plan::Phase> phases;  ///< host -> last phase it reported
    std::string first_failed;                   ///< host whose outcome explains the job's
    bool launched = false;                      ///< agents were started, or at least may run
    bool released = false;
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
    std::vector<Attempt> attempts;

    Secondary secondary() const { return transitions.back().status; }
    /// Whole seconds between training_start and training_end, at least 1; nullopt while running.
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
};
struct Queued {
    AttemptId attempt;
    int running = 0;
};  ///< no free slot: so many jobs run
struct Placed {
    AttemptId attempt;
};  ///< the engine took the launch
struct Released {
    AttemptId attempt;
};  ///< nothing of the attempt is left
using Stimulus = std::variant<Created, StopRequested, AgentEvent, AgentGone, LaunchFailed, Queued,
                              Placed, Released>;

struct Launch {
    AttemptId attempt;
};
struct Release {
    AttemptId attempt;
};
struct Wake {
    AttemptId attempt;
};  ///< a command is waiting: answer held syncs now
using Effect = std::variant<Launch, Release, Wake>;

struct Stepped {
    Job job;
    std::vector<Effect> effects;
};
/// One move of the state machine. Pure; replaying an old stimulus changes nothing. `version` grows
/// by one exactly when something changed.
Stepped step(Job job, const Stimulus& stimulus, Instant now);
/// True when the agents of the current attempt that still run are to stop.
bool wants_stop(const Job& job);
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
    /// Throws not_found, invalid ("already in status X").
    void request_stop(const std::string& region, const std::string& name);
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
