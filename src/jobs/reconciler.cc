// SPDX-License-Identifier: Apache-2.0
// The thread that makes the world follow the rows: starts agents when there is a slot, takes in
// their ends, releases what is over. What is to be done is derived from stored jobs, so a restart
// begins by deriving it anew; launch and release are idempotent.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "jobs/impl.h"
#include "jobs/token.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr milliseconds kRetry{500};  // the database refused (full disk): try again then
constexpr seconds kReleaseRetry{5};  // the engine could not release
constexpr seconds kIdle{60};

/// What the coordinator of an elastic attempt starts with.
std::string rendezvous_of(const Job& job, const AttemptId& attempt, const std::string& token) {
    const plan::Elastic& elastic = *job.spec.node.elastic;
    Json j = Json::object();
    j["run_id"] = attempt.str();
    j["min_nodes"] = elastic.min_nodes;
    j["max_nodes"] = elastic.max_nodes;
    j["expected_nodes"] = job.instances;
    j["max_restarts"] = elastic.max_restarts;
    j["checkpoints"] = job.spec.node.checkpoint.has_value();
    j["token"] = token;
    return dump_json(j);
}

}  // namespace

// ---- the loop
// ------------------------------------------------------------------------------------

void JobService::Impl::note(Work& w, std::int64_t number, const Job& job,
                            const std::vector<Effect>& effects) {
    const Deadline now = Deadline::in(seconds(0));
    for (const Effect& effect : effects) {
        if (const auto* start = std::get_if<Launch>(&effect)) {
            if (w.occupied.contains(number))
                w.further.emplace_back(number, start->attempt);
            else
                w.launches.emplace(number, start->attempt);
        } else if (const auto* end = std::get_if<Release>(&effect)) {
            w.launches.erase(number);
            const auto ended = std::ranges::find(job.attempts, end->attempt, &Attempt::id);
            const bool orderly = ended != job.attempts.end() &&
                                 std::ranges::all_of(ended->nodes, [](const auto& node) {
                                     return node.second.finished.has_value();
                                 });
            w.releases.emplace(
                Work::Target(end->attempt, ""),
                Work::Releasing{Deadline::in(orderly ? placing.exit_grace : milliseconds(0)), now});
            w.look = true;
        } else if (const auto* node = std::get_if<ReleaseNode>(&effect)) {
            w.releases.emplace(Work::Target(node->attempt, node->node),
                               Work::Releasing{Deadline::in(placing.exit_grace), now});
            w.look = true;
        } else if (const auto* victim = std::get_if<Kill>(&effect)) {
            w.kills.emplace_back(victim->attempt, victim->node);
        }  // Wake: publishing the attempt wakes its held syncs
    }
    const auto due = next_due(job);
    const auto known = w.timers.find(number);
    if (known == w.timers.end() && !due) return;
    if (known != w.timers.end() && known->second.version > job.version) return;
    if (known != w.timers.end() && known->second.due == due && !is_terminal(job.status)) {
        known->second.version = job.version;
        return;
    }
    if (is_terminal(job.status) && known != w.timers.end())
        w.timers.erase(known);
    else
        w.timers.insert_or_assign(number, Work::Timer{job.id, job.version, due});
    w.rearmed = true;
}

void JobService::Impl::run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        Batch batch = take(stop);
        for (const engine::Allocation& agent : batch.gone) handle(agent);
        if (!batch.due.empty()) pass_time(batch.due);
        if (!batch.kills.empty()) kill(batch.kills);
        if (!batch.releases.empty()) release(batch.releases);
        if (batch.launch) launch(batch.launch->first, batch.launch->second);
        tell(batch.changes);
    }
}

JobService::Impl::Batch JobService::Impl::take(const std::stop_token& stop) {
    const Deadline by = work->with([this](Work& w) {
        w.rearmed = false;
        Deadline earliest = Deadline::in(kIdle);
        if (w.retry_at) earliest = Deadline::earlier(earliest, *w.retry_at);
        for (const auto& [target, releasing] : w.releases) {
            const Deadline next =
                releasing.not_before.passed() ? releasing.kill_at : releasing.not_before;
            earliest = Deadline::earlier(earliest, next);
        }
        const Instant now = clock.now();
        for (const auto& [number, timer] : w.timers) {
            if (!timer.due) continue;
            const milliseconds left =
                std::clamp(*timer.due - now, milliseconds(0), placing.clock_check);
            earliest = Deadline::earlier(earliest, Deadline::in(left));
        }
        return earliest;
    });
    const auto ready = [this](const Work& w) {
        if (!w.changes.empty()) return true;
        if (w.retry_at && !w.retry_at->passed()) return false;
        return !w.gone.empty() || w.look || w.rearmed || !w.kills.empty() || !w.further.empty() ||
               (!w.launches.empty() && w.occupied.size() < slots);
    };
    return work->wait(by, stop, ready, [&](Work& w) {
        Batch batch;
        batch.changes.swap(w.changes);
        if (w.retry_at && !w.retry_at->passed()) return batch;
        w.retry_at.reset();
        w.look = false;
        batch.gone.swap(w.gone);
        batch.kills.swap(w.kills);
        for (const auto& [target, releasing] : w.releases)
            if (releasing.not_before.passed()) batch.releases.push_back(target);
        const Instant now = clock.now();
        for (const auto& [number, timer] : w.timers)
            if (timer.due && *timer.due <= now) batch.due.emplace_back(number, timer.job);
        if (!w.further.empty()) {
            batch.launch = w.further.front();
            w.further.pop_front();
        } else if (!w.launches.empty() && w.occupied.size() < slots) {
            batch.launch = *w.launches.begin();
            w.occupied.insert(batch.launch->first);
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
    if (!attempt || attempt->over) return;
    if (agent.host != engine::kNetworkHost) {
        const auto node = attempt->nodes.find(agent.host);
        if (node == attempt->nodes.end() || node->second.finished) return;
    }
    try {
        apply(attempt->job, {AgentGone{agent.attempt, agent.host, agent.ending}});
    } catch (const Error& error) {
        log::error("the end of an agent could not be stored; trying again",
                   {{"job", attempt->name}, {"error", error.what()}});
        work->with([&](Work& w) { w.gone.push_back(agent); });
        retry_later();
    }
}

void JobService::Impl::pass_time(const std::vector<std::pair<std::int64_t, JobId>>& due) {
    for (const auto& [number, id] : due) {
        try {
            const bool known = apply(id, {TimePassed{}});
            const Cached now = known ? find(id) : Cached{};
            work->with([&](Work& w) {
                const auto timer = w.timers.find(number);
                if (timer == w.timers.end()) return;
                if (now.job == nullptr) {
                    w.timers.erase(timer);
                } else if (timer->second.version <= now.job->version) {
                    // A time that is over and moved nothing must not be asked about again.
                    const auto next = next_due(*now.job);
                    timer->second.due = next && *next > clock.now() ? next : std::nullopt;
                }
            });
        } catch (const Error& error) {
            log::error("the passing of time could not be stored; trying again",
                       {{"job", id.str()}, {"error", error.what()}});
            return retry_later();
        }
    }
}

void JobService::Impl::kill(const std::deque<Work::Target>& targets) {
    for (const Work::Target& target : targets) {
        try {
            engine.kill(target.first, target.second);
        } catch (const Error& error) {
            log::error("an agent could not be killed; trying again",
                       {{"attempt", target.first.str()}, {"error", error.what()}});
            work->with([&](Work& w) { w.kills.push_back(target); });
            retry_later();
        }
    }
}

/// What of the attempt is still to be started; nothing when that is over.
std::optional<engine::Placement> JobService::Impl::placement(const Job& job,
                                                             const AttemptId& id) const {
    if (is_terminal(job.status) || job.attempts.empty()) return std::nullopt;
    const Attempt& attempt = job.attempts.back();
    if (attempt.id != id || attempt.ended || attempt.released) return std::nullopt;
    engine::Placement placement;
    placement.attempt = id;
    placement.gpus = job.spec.node.gpus;
    for (const auto& [name, node] : attempt.nodes)
        if (!node.launched && !node.finished)
            placement.agents.push_back({name, placing.control_plane, make_token(secret, id, name)});
    if (placement.agents.empty()) return std::nullopt;
    const plan::NodePlan& node = job.spec.node;
    if (node.elastic) {
        engine::Network network;
        network.hosts = node.elastic->max_nodes;
        network.rendezvous = rendezvous_of(job, id, make_rendezvous_token(secret, id));
        placement.network = std::move(network);
    } else if (job.spec.instance_count > 1) {
        placement.network = engine::Network{job.spec.instance_count, {}};
    }
    return placement;
}

void JobService::Impl::launch(std::int64_t number, const AttemptId& id) {
    const auto attempt = live.find(id);
    try {
        // The stored job decides: a stop may have overtaken the news of the creation.
        const Cached stored = attempt ? find(attempt->job) : Cached{};
        const auto wanted = stored.job ? placement(*stored.job, id) : std::nullopt;
        if (!wanted) {
            const bool over = stored.job == nullptr || is_terminal(stored.job->status);
            if (over)
                work->with([&](Work& w) {
                    if (!w.releases.contains(Work::Target(id, ""))) w.occupied.erase(number);
                });
            return;
        }
        if (placing.credentials) live.set_access_key(id, placing.credentials(id).access_key);
        std::vector<std::string> nodes;
        for (const engine::AgentStart& start : wanted->agents) nodes.push_back(start.host);
        Stimulus outcome = Placed{id, nodes};
        try {
            engine.launch(*wanted);
        } catch (const Error& error) {
            log::error("agents could not be started",
                       {{"job", attempt->name}, {"error", error.what()}});
            outcome = LaunchFailed{id, error.what(), nodes};
        }
        apply(attempt->job, {outcome});
    } catch (const Error& error) {
        log::error("a launch could not be stored; trying again",
                   {{"job", id.str()}, {"error", error.what()}});
        work->with([&](Work& w) { w.further.emplace_back(number, id); });  // it is idempotent
        retry_later();
    }
}

/// Its agents have ended, or had their time to.
bool JobService::Impl::is_due(const Work::Target& target, const std::set<Work::Target>& running) {
    const auto& [attempt, node] = target;
    bool runs = running.contains(target);
    if (node.empty()) {
        const auto first = running.lower_bound(Work::Target(attempt, ""));
        runs = first != running.end() && first->first == attempt;
    }
    return !runs || work->with([&](const Work& w) {
        const auto found = w.releases.find(target);
        return found != w.releases.end() && found->second.kill_at.passed();
    });
}

void JobService::Impl::release(const std::vector<Work::Target>& candidates) {
    std::set<Work::Target> running;
    for (const engine::Allocation& agent : engine.list())
        if (agent.state == engine::AgentState::running && agent.host != engine::kNetworkHost)
            running.emplace(agent.attempt, agent.host);
    for (const Work::Target& target : candidates) {
        if (!is_due(target, running)) continue;
        const auto& [attempt, node] = target;
        try {
            if (node.empty())
                engine.release(attempt);
            else
                engine.release(attempt, node);
            const auto known = live.find(attempt);
            const bool moved = known && apply(known->job, {Released{attempt, node}});
            const Cached now = moved ? find(known->job) : Cached{};
            if (node.empty() && now.job == nullptr) live.erase(attempt);
            work->with([&](Work& w) {
                w.releases.erase(target);
                if (!node.empty() || !known) return;
                if (now.job == nullptr || is_terminal(now.job->status))
                    w.occupied.erase(known->number);
            });
        } catch (const Error& error) {
            log::error("an attempt could not be released; trying again",
                       {{"attempt", attempt.str()}, {"node", node}, {"error", error.what()}});
            work->with([&](Work& w) {
                w.releases.insert_or_assign(
                    target, Work::Releasing{Deadline::in(seconds(0)), Deadline::in(kReleaseRetry)});
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
