// SPDX-License-Identifier: Apache-2.0
// Inside of JobService. Every move of a job goes through apply(): load, step, store in one write
// transaction, then publish() to the caches and the reconciler. The reconciler thread alone talks
// to the engine.
#pragma once

#include "base/sync.h"
#include "jobs/cache.h"
#include "jobs/claims.h"
#include "jobs/jobs.h"
#include "jobs/live.h"
#include "jobs/rows.h"

#include <atomic>
#include <deque>
#include <set>

namespace ty::jobs {

/// What waits for the reconciler.
struct Work {
    struct Releasing {
        Deadline kill_at;  ///< until then the agents may end by themselves
        Deadline not_before;
    };
    /// An attempt and one of its nodes, or all of them: "".
    using Target = std::pair<AttemptId, std::string>;
    using Launching = std::pair<std::int64_t, AttemptId>;
    struct Timer {
        JobId job;
        std::int64_t version = 0;  ///< of the job that wanted it
        std::optional<Instant> due;
    };
    std::map<std::int64_t, AttemptId> launches;  ///< by creation: first come, first served
    std::deque<Launching> further;               ///< of jobs that hold a slot already
    std::deque<engine::Allocation> gone;         ///< agents that ended
    std::map<Target, Releasing> releases;
    std::deque<Target> kills;
    std::map<std::int64_t, Timer> timers;  ///< row of a job -> when time alone moves it
    std::set<std::int64_t> occupied;       ///< rows of jobs that hold a slot
    std::deque<std::shared_ptr<const Job>> changes;
    bool look = false;                 ///< an agent ended: look at the releases again
    bool rearmed = false;              ///< the timers changed
    std::optional<Deadline> retry_at;  ///< the database refused: nothing but changes until then
};

/// Throws not_found.
Row need_job(store::Tx& tx, const std::string& region, const std::string& name);

struct JobService::Impl {
    Impl(store::Db& db, engine::Engine& engine, Clock& clock, Ids& ids, Placing placing);
    ~Impl();

    // ---- moving jobs (service.cc)
    struct Moved {
        Row row;
        std::vector<Effect> effects;
        bool changed = false;
        bool was_terminal = false;
    };
    /// Inside a write transaction: step through the stimuli and store the result.
    Moved move(store::Tx& tx, Row row, const std::vector<Stimulus>& stimuli);
    /// One transaction for the job; false when it does not exist any more.
    bool apply(const JobId& id, const std::vector<Stimulus>& stimuli);
    void publish(Moved moved);
    /// Through the cache when it holds the current version.
    std::optional<Row> load(store::Tx& tx, const JobId& id);
    Cached find(const std::string& region, const std::string& name);
    Cached find(const JobId& id);
    Job create(JobSpec spec, std::string document, const std::vector<Tag>& tags,
               const std::string& idempotency);

    // ---- recovery.cc
    void recover();
    void recover_job(const Row& row, const std::vector<engine::Allocation>& agents);

    // ---- reconciler.cc
    void run(const std::stop_token& stop);
    struct Batch {
        std::deque<engine::Allocation> gone;
        std::deque<std::shared_ptr<const Job>> changes;
        std::optional<Work::Launching> launch;
        std::vector<Work::Target> releases;  ///< candidates
        std::deque<Work::Target> kills;
        std::vector<std::pair<std::int64_t, JobId>> due;  ///< timers
    };
    /// What the effects and the job's due time mean for the reconciler.
    void note(Work& w, std::int64_t number, const Job& job, const std::vector<Effect>& effects);
    Batch take(const std::stop_token& stop);
    void handle(const engine::Allocation& agent);
    void launch(std::int64_t number, const AttemptId& attempt);
    std::optional<engine::Placement> placement(const Job& job, const AttemptId& attempt) const;
    void release(const std::vector<Work::Target>& candidates);
    bool is_due(const Work::Target& target, const std::set<Work::Target>& running);
    void kill(const std::deque<Work::Target>& targets);
    void pass_time(const std::vector<std::pair<std::int64_t, JobId>>& due);
    void tell(const std::deque<std::shared_ptr<const Job>>& changes);
    void retry_later();

    // Immutable.
    store::Db& db;
    engine::Engine& engine;
    Clock& clock;
    Ids& ids;
    const Placing placing;
    const std::size_t slots;
    std::string secret;

    // Own synchronisation.
    JobCache cache;
    LiveAttempts live;
    CheckpointClaims claims;
    /// Shared with the engine's callback, which may be running while we are destroyed.
    const std::shared_ptr<Sync<Work>> work = std::make_shared<Sync<Work>>();
    Sync<std::function<void(const Job&)>> on_change;
    std::atomic<bool> has_listener = false;
    std::atomic<std::uint64_t> created = 0, completed = 0, failed = 0, stopped = 0;

    TaskGroup tasks;  // last: joined first
};

}  // namespace ty::jobs
