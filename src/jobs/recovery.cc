// SPDX-License-Identifier: Apache-2.0
// After a restart: what the stored jobs and the engine's agents say is still to be done.
#include "base/log.h"
#include "jobs/impl.h"

#include <algorithm>

namespace ty::jobs {

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
            w.releases.emplace(Work::Target(AttemptId(attempt), ""),
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
    if (!is_terminal(job.status)) claims.adopt(job);
    const bool started = attempt.launched || !agents.empty();
    if (started && placing.credentials)
        live.set_access_key(attempt.id, placing.credentials(attempt.id).access_key);
    const Work::Releasing orderly{Deadline::in(placing.exit_grace), Deadline::in(seconds(0))};
    work->with([&](Work& w) {
        // Between attempts the slot is kept.
        if (started || attempt.number > 1) w.occupied.insert(row.number);
        note(w, row.number, job, {});
        if (attempt.released) return;
        if (is_terminal(job.status) || attempt.ended) {
            w.releases.emplace(Work::Target(attempt.id, ""), orderly);
            return;
        }
        bool to_launch = false;
        for (const auto& [name, node] : attempt.nodes) {
            const auto found = std::ranges::find(agents, name, &engine::Allocation::host);
            if (node.finished) {
                if (!attempt.agents.empty() && !node.released)
                    w.releases.emplace(Work::Target(attempt.id, name), orderly);
                continue;
            }
            to_launch |= !node.launched;
            if (found != agents.end() && found->state == engine::AgentState::gone)
                w.gone.push_back(*found);
            else if (found == agents.end() && node.launched)
                w.gone.push_back({attempt.id, name, engine::AgentState::gone,
                                  "it was gone when the service started"});
            else if (found != agents.end() && !node.killed.empty())
                w.kills.emplace_back(attempt.id, name);
        }
        for (const engine::Allocation& agent : agents)
            if (agent.host == engine::kNetworkHost && agent.state == engine::AgentState::gone)
                w.gone.push_back(agent);
        if (!to_launch) return;
        if (w.occupied.contains(row.number))
            w.further.emplace_back(row.number, attempt.id);
        else
            w.launches.emplace(row.number, attempt.id);
    });
}

}  // namespace ty::jobs
