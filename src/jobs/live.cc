// SPDX-License-Identifier: Apache-2.0
#include "jobs/live.h"

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
    live.job_over = is_terminal(job.status);
    live.released = attempt.released;
    live.over = live.job_over || attempt.ended.has_value();
    for (const auto& [name, node] : attempt.nodes)
        if (!node.released)
            live.nodes.emplace(name, LiveNode{node.seen, node.commands, node.finished.has_value()});
    return live;
}

/// A held sync may have its answer in `now` that it had not in `before`.
bool has_news(const LiveAttempt& before, const LiveAttempt& now) {
    if (now.over) return true;
    for (const auto& [name, node] : now.nodes) {
        const auto known = before.nodes.find(name);
        if (known == before.nodes.end()) continue;
        if (node.finished != known->second.finished ||
            node.commands.size() != known->second.commands.size())
            return true;
    }
    return now.nodes.size() < before.nodes.size();
}

}  // namespace

void LiveAttempts::drop(State& state, std::map<std::string, LivePtr>::iterator entry) {
    const LivePtr gone = entry->second;
    if (!gone->job_over) --state.running;
    state.by_job.erase(gone->number);
    std::erase_if(state.access_keys, [&](const auto& key) { return key.second == gone->id.str(); });
    state.attempts.erase(entry);
}

void LiveAttempts::put(std::int64_t number, const Job& job) {
    if (job.attempts.empty()) return;
    const auto fresh = std::make_shared<const LiveAttempt>(live_of(number, job));
    const bool news = state_.with([&](State& state) {
        bool told = false;
        if (const auto known = state.by_job.find(number); known != state.by_job.end()) {
            const auto entry = state.attempts.find(known->second);
            const LivePtr before = entry->second;
            if (before->version >= fresh->version) return false;
            told = before->id != fresh->id || has_news(*before, *fresh);
            if (before->id != fresh->id || (fresh->job_over && fresh->released)) {
                drop(state, entry);
            } else {
                if (!before->job_over && fresh->job_over) --state.running;
                entry->second = fresh;
                return told;
            }
        }
        if (fresh->job_over && fresh->released) return told;
        state.attempts.emplace(fresh->id.str(), fresh);
        state.by_job.emplace(number, fresh->id.str());
        if (!fresh->job_over) ++state.running;
        return told;
    });
    if (news) state_.notify();
}

void LiveAttempts::erase(const AttemptId& attempt) {
    state_.with([&](State& state) {
        const auto found = state.attempts.find(attempt.str());
        if (found != state.attempts.end()) drop(state, found);
    });
    state_.notify();
}

LivePtr LiveAttempts::find(const AttemptId& attempt) const {
    return state_.with([&](const State& state) -> LivePtr {
        const auto found = state.attempts.find(attempt.str());
        return found == state.attempts.end() ? nullptr : found->second;
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
        if (state.attempts.at(found->second)->released) return std::nullopt;
        return AttemptId(found->second);
    });
}

Waited LiveAttempts::wait(const AttemptId& attempt, const std::string& node,
                          std::uint64_t commands_seen, Deadline by,
                          const std::stop_token& stop) const {
    const auto look = [&](const State& state) {
        Waited waited;
        const auto found = state.attempts.find(attempt.str());
        if (found == state.attempts.end()) return waited;
        const auto mine = found->second->nodes.find(node);
        if (mine == found->second->nodes.end()) return waited;
        waited.gone = found->second->over || mine->second.finished;
        waited.seen = mine->second.seen;
        const auto& commands = mine->second.commands;
        if (!waited.gone && commands_seen < commands.size()) {
            waited.number = commands_seen + 1;
            waited.command = commands[commands_seen];
        }
        return waited;
    };
    const auto ready = [&](const State& state) {
        const Waited now = look(state);
        return now.gone || now.command.has_value();
    };
    return state_.wait(by, stop, ready, look);
}

void LiveAttempts::wake() {
    state_.notify();
}

}  // namespace ty::jobs
