// SPDX-License-Identifier: Apache-2.0
// Inside of JobService. Every move of a job goes through apply(): load, step, store in one write
// transaction, then publish() to the caches and the reconciler. The reconciler thread alone talks
// to the engine.
#pragma once

#include "base/sync.h"
#include "jobs/cache.h"
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
    std::map<std::int64_t, AttemptId> launches;  ///< by creation: first come, first served
    std::deque<engine::Allocation> gone;         ///< agents that ended
    std::map<std::string, Releasing> releases;   ///< attempt -> how
    std::set<std::string> occupied;              ///< attempts that hold a slot
    std::deque<std::shared_ptr<const Job>> changes;
    bool look = false;                 ///< an agent ended: look at the releases again
    std::optional<Deadline> retry_at;  ///< the database refused: nothing but changes until then
};

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

    // ---- reconciler.cc
    void recover();
    void recover_job(const Row& row, const std::vector<engine::Allocation>& agents);
    void run(const std::stop_token& stop);
    struct Batch {
        std::deque<engine::Allocation> gone;
        std::deque<std::shared_ptr<const Job>> changes;
        std::optional<std::pair<std::int64_t, AttemptId>> launch;
        std::vector<std::string> releases;  ///< candidates
    };
    Batch take(const std::stop_token& stop);
    void handle(const engine::Allocation& agent);
    void launch(std::int64_t number, const AttemptId& attempt);
    void release(const std::vector<std::string>& candidates);
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
    /// Shared with the engine's callback, which may be running while we are destroyed.
    const std::shared_ptr<Sync<Work>> work = std::make_shared<Sync<Work>>();
    Sync<std::function<void(const Job&)>> on_change;
    std::atomic<bool> has_listener = false;
    std::atomic<std::uint64_t> created = 0, completed = 0, failed = 0, stopped = 0;

    TaskGroup tasks;  // last: joined first
};

}  // namespace ty::jobs
