// SPDX-License-Identifier: Apache-2.0
// The thread that makes the world follow the rows: starts agents when there is a slot, takes in
// their ends, releases what is over. What is to be done is derived from stored jobs, so a restart
// begins by deriving it anew; launch and release are idempotent.
#include "base/error.h"
#include "base/log.h"
#include "jobs/impl.h"
#include "jobs/token.h"

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr milliseconds kRetry{500};  // the database refused (full disk): try again then
constexpr seconds kReleaseRetry{5};  // the engine could not release
constexpr seconds kIdle{60};

}  // namespace

// ---- after a restart
// -----------------------------------------------------------------------------

void JobService::Impl::recover() {
    // First listen, then look: an agent that ends in between is told twice rather than never.
    engine.on_gone([inbox = work](const engine::Allocation& agent) {
        inbox->with([&](Work& w) { w.gone.push_back(agent); });
        inbox->notify();
    });
    std::vector<Row> rows;
    db.read([&](store::Tx& tx) { rows = live_jobs(tx); });
    std::map<std::string, std::vector<engine::Allocation>> agents;
    for (engine::Allocation& agent : engine.list())
        agents[agent.attempt.str()].push_back(std::move(agent));

    for (const Row& row : rows) {
        const auto found = agents.find(row.job.attempts.back().id.str());
        recover_job(row, found == agents.end() ? std::vector<engine::Allocation>() : found->second);
        if (found != agents.end()) agents.erase(found);
    }
    work->with([&](Work& w) {
        for (const auto& [attempt, unknown] : agents)  // their jobs were removed
            w.releases.emplace(attempt,
                               Work::Releasing{Deadline::in(seconds(0)), Deadline::in(seconds(0))});
        w.look = true;
    });
    if (!rows.empty())
        log::info("recovered jobs of an earlier run",
                  {{"jobs", rows.size()}, {"running", live.running()}});
}

void JobService::Impl::recover_job(const Row& row, const std::vector<engine::Allocation>& agents) {
    const Job& job = row.job;
    const Attempt& attempt = job.attempts.back();
    live.put(row.number, job);
    const bool started = attempt.launched || !agents.empty();
    if (started && placing.credentials)
        live.set_access_key(attempt.id, placing.credentials(attempt.id).access_key);
    work->with([&](Work& w) {
        if (started) w.occupied.insert(attempt.id.str());
        if (is_terminal(job.status)) {
            w.releases.emplace(attempt.id.str(), Work::Releasing{Deadline::in(placing.exit_grace),
                                                                 Deadline::in(seconds(0))});
            return;
        }
        if (!attempt.launched) w.launches.emplace(row.number, attempt.id);
        if (!started) return;
        for (const std::string& host : hosts_of(job.spec)) {
            const auto found = std::ranges::find(agents, host, &engine::Allocation::host);
            if (found != agents.end() && found->state == engine::AgentState::gone)
                w.gone.push_back(*found);
            if (found == agents.end() && attempt.launched)
                w.gone.push_back({attempt.id, host, engine::AgentState::gone,
                                  "it was gone when the service started"});
        }
    });
}

// ---- the loop
// ------------------------------------------------------------------------------------

void JobService::Impl::run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        Batch batch = take(stop);
        for (const engine::Allocation& agent : batch.gone) handle(agent);
        if (!batch.releases.empty()) release(batch.releases);
        if (batch.launch) launch(batch.launch->first, batch.launch->second);
        tell(batch.changes);
    }
}

JobService::Impl::Batch JobService::Impl::take(const std::stop_token& stop) {
    const Deadline by = work->with([](const Work& w) {
        Deadline earliest = Deadline::in(kIdle);
        if (w.retry_at) earliest = Deadline::earlier(earliest, *w.retry_at);
        for (const auto& [attempt, releasing] : w.releases) {
            const Deadline next =
                releasing.not_before.passed() ? releasing.kill_at : releasing.not_before;
            earliest = Deadline::earlier(earliest, next);
        }
        return earliest;
    });
    const auto ready = [this](const Work& w) {
        if (!w.changes.empty()) return true;
        if (w.retry_at && !w.retry_at->passed()) return false;
        return !w.gone.empty() || w.look || (!w.launches.empty() && w.occupied.size() < slots);
    };
    return work->wait(by, stop, ready, [&](Work& w) {
        Batch batch;
        batch.changes.swap(w.changes);
        if (w.retry_at && !w.retry_at->passed()) return batch;
        w.retry_at.reset();
        w.look = false;
        batch.gone.swap(w.gone);
        for (const auto& [attempt, releasing] : w.releases)
            if (releasing.not_before.passed()) batch.releases.push_back(attempt);
        if (!w.launches.empty() && w.occupied.size() < slots) {
            batch.launch = *w.launches.begin();
            w.occupied.insert(batch.launch->second.str());
            w.launches.erase(w.launches.begin());
        }
        return batch;
    });
}

void JobService::Impl::retry_later() {
    work->with([](Work& w) { w.retry_at = Deadline::in(kRetry); });
}

/// An agent ended. When its attempt is waiting to be released, it may be that now.
void JobService::Impl::handle(const engine::Allocation& agent) {
    work->with([](Work& w) { w.look = true; });
    const auto attempt = live.find(agent.attempt);
    if (!attempt || attempt->over || attempt->finished.contains(agent.host)) return;
    try {
        apply(attempt->job, {AgentGone{agent.attempt, agent.host, agent.ending}});
    } catch (const Error& error) {
        log::error("the end of an agent could not be stored; trying again",
                   {{"job", attempt->name}, {"error", error.what()}});
        work->with([&](Work& w) { w.gone.push_back(agent); });
        retry_later();
    }
}

void JobService::Impl::launch(std::int64_t number, const AttemptId& id) {
    const auto attempt = live.find(id);
    try {
        // The stored job decides: a stop may have overtaken the news of the creation.
        const Cached stored = attempt ? find(attempt->job) : Cached{};
        if (stored.job == nullptr || is_terminal(stored.job->status)) {
            work->with([&](Work& w) { w.occupied.erase(id.str()); });
            if (stored.job == nullptr || stored.job->attempts.back().released) live.erase(id);
            return;
        }
        engine::Placement placement{id, {}};
        for (const std::string& host : attempt->hosts)
            placement.agents.push_back({host, placing.control_plane, make_token(secret, id, host)});
        if (placing.credentials) live.set_access_key(id, placing.credentials(id).access_key);
        Stimulus outcome = Placed{id};
        try {
            engine.launch(placement);
        } catch (const Error& error) {
            log::error("agents could not be started",
                       {{"job", attempt->name}, {"error", error.what()}});
            outcome = LaunchFailed{id, error.what()};
        }
        apply(attempt->job, {outcome});
    } catch (const Error& error) {
        log::error("a launch could not be stored; trying again",
                   {{"job", attempt->name}, {"error", error.what()}});
        work->with([&](Work& w) {
            w.launches.emplace(number, id);  // launching is idempotent
            w.occupied.erase(id.str());
        });
        retry_later();
    }
}

/// Release the candidates whose agents have ended, or had their time to.
void JobService::Impl::release(const std::vector<std::string>& candidates) {
    std::set<std::string> running;
    for (const engine::Allocation& agent : engine.list())
        if (agent.state == engine::AgentState::running) running.insert(agent.attempt.str());
    for (const std::string& id : candidates) {
        const bool due = !running.contains(id) || work->with([&](const Work& w) {
            const auto found = w.releases.find(id);
            return found != w.releases.end() && found->second.kill_at.passed();
        });
        if (!due) continue;
        const AttemptId attempt(id);
        try {
            engine.release(attempt);
            if (const auto known = live.find(attempt)) apply(known->job, {Released{attempt}});
            live.erase(attempt);
            work->with([&](Work& w) {
                w.releases.erase(id);
                w.occupied.erase(id);
            });
        } catch (const Error& error) {
            log::error("an attempt could not be released; trying again",
                       {{"attempt", id}, {"error", error.what()}});
            work->with([&](Work& w) {
                w.releases.insert_or_assign(
                    id, Work::Releasing{Deadline::in(seconds(0)), Deadline::in(kReleaseRetry)});
            });
        }
    }
}

void JobService::Impl::tell(const std::deque<std::shared_ptr<const Job>>& changes) {
    if (changes.empty()) return;
    const auto fn =
        on_change.with([](const std::function<void(const Job&)>& known) { return known; });
    if (!fn) return;
    for (const auto& job : changes) {
        try {
            fn(*job);
        } catch (const Error& error) {
            log::error("a listener for job changes failed",
                       {{"job", job->spec.name}, {"error", error.what()}});
        }
    }
}

}  // namespace ty::jobs
