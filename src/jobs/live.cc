// SPDX-License-Identifier: Apache-2.0
#include "jobs/live.h"

#include <algorithm>

namespace ty::jobs {

namespace {

LiveAttempt live_of(std::int64_t number, const Job& job) {
    const Attempt& attempt = job.attempts.back();
    LiveAttempt live;
    live.id = attempt.id;
    live.number = number;
    live.job = job.id;
    live.region = job.spec.region;
    live.name = job.spec.name;
    live.version = job.version;
    live.hosts = hosts_of(job.spec);
    live.stop = wants_stop(job);
    live.over = is_terminal(job.status);
    live.seen = attempt.seen;
    for (const auto& [host, outcome] : attempt.finished) live.finished.insert(host);
    return live;
}

}  // namespace

bool LiveAttempt::has_host(const std::string& host) const {
    return std::ranges::find(hosts, host) != hosts.end();
}

void LiveAttempts::put(std::int64_t number, const Job& job) {
    if (job.attempts.empty()) return;
    if (job.attempts.back().released) return erase(job.attempts.back().id);
    LiveAttempt fresh = live_of(number, job);
    const bool news = fresh.stop || fresh.over;
    state_.with([&](State& state) {
        const auto [entry, inserted] = state.attempts.try_emplace(fresh.id.str());
        LiveAttempt& known = entry->second;
        if (!inserted && known.version >= fresh.version) return;
        const bool was_running = !inserted && !known.over;
        if (was_running && fresh.over) --state.running;
        if (inserted && !fresh.over) ++state.running;
        known = std::move(fresh);
    });
    if (news) state_.notify();
}

void LiveAttempts::erase(const AttemptId& attempt) {
    state_.with([&](State& state) {
        const auto found = state.attempts.find(attempt.str());
        if (found == state.attempts.end()) return;
        if (!found->second.over) --state.running;
        state.attempts.erase(found);
        std::erase_if(state.access_keys,
                      [&](const auto& entry) { return entry.second == attempt.str(); });
    });
    state_.notify();
}

std::optional<LiveAttempt> LiveAttempts::find(const AttemptId& attempt) const {
    return state_.with([&](const State& state) -> std::optional<LiveAttempt> {
        const auto found = state.attempts.find(attempt.str());
        if (found == state.attempts.end()) return std::nullopt;
        return found->second;
    });
}

std::size_t LiveAttempts::running() const {
    return state_.with([](const State& state) { return state.running; });
}

void LiveAttempts::set_access_key(const AttemptId& attempt, const std::string& access_key) {
    state_.with([&](State& state) {
        if (state.attempts.contains(attempt.str()))
            state.access_keys.insert_or_assign(access_key, attempt.str());
    });
}

std::optional<AttemptId> LiveAttempts::find_access_key(const std::string& access_key) const {
    return state_.with([&](const State& state) -> std::optional<AttemptId> {
        const auto found = state.access_keys.find(access_key);
        if (found == state.access_keys.end()) return std::nullopt;
        return AttemptId(found->second);
    });
}

Waited LiveAttempts::wait(const AttemptId& attempt, const std::string& host,
                          std::uint64_t commands_seen, Deadline by,
                          const std::stop_token& stop) const {
    const auto look = [&](const State& state) {
        const auto found = state.attempts.find(attempt.str());
        if (found == state.attempts.end()) return Waited{};
        const LiveAttempt& live = found->second;
        const auto seen = live.seen.find(host);
        return Waited{live.over || live.finished.contains(host), live.stop,
                      seen == live.seen.end() ? 0 : seen->second};
    };
    const auto ready = [&](const State& state) {
        const Waited now = look(state);
        return now.gone || (now.stop && commands_seen == 0);
    };
    return state_.wait(by, stop, ready, look);
}

void LiveAttempts::wake() {
    state_.notify();
}

}  // namespace ty::jobs
