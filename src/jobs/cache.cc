// SPDX-License-Identifier: Apache-2.0
#include "jobs/cache.h"

#include "base/text.h"

namespace ty::jobs {

namespace {

std::string key_of(const std::string& region, const std::string& name) {
    return region + "/" + to_lower(name);
}

}  // namespace

Cached JobCache::touch(State& state, Entries::iterator entry) {
    state.entries.splice(state.entries.begin(), state.entries, entry);
    return entry->cached;
}

void JobCache::drop(State& state, Entries::iterator entry) {
    state.by_id.erase(entry->cached.job->id.str());
    state.by_name.erase(entry->name_key);
    state.entries.erase(entry);
}

void JobCache::insert(State& state, std::int64_t number, std::shared_ptr<const Job> job) const {
    const auto found = state.by_id.find(job->id.str());
    if (found != state.by_id.end()) {
        if (found->second->cached.job->version < job->version)
            found->second->cached.job = std::move(job);
        touch(state, found->second);
        return;
    }
    std::string name_key = key_of(job->spec.region, job->spec.name);
    if (const auto old = state.by_name.find(name_key); old != state.by_name.end())
        drop(state, old->second);
    state.entries.push_front({std::move(name_key), {number, std::move(job)}});
    const auto entry = state.entries.begin();
    state.by_id.emplace(entry->cached.job->id.str(), entry);
    state.by_name.emplace(entry->name_key, entry);
    if (state.entries.size() > capacity_) drop(state, std::prev(state.entries.end()));
}

Cached JobCache::find(const std::string& region, const std::string& name) {
    const std::string key = key_of(region, name);
    return state_.with([&key](State& state) {
        const auto found = state.by_name.find(key);
        return found == state.by_name.end() ? Cached{} : touch(state, found->second);
    });
}

Cached JobCache::find(const JobId& id) {
    return state_.with([&id](State& state) {
        const auto found = state.by_id.find(id.str());
        return found == state.by_id.end() ? Cached{} : touch(state, found->second);
    });
}

std::uint64_t JobCache::generation() const {
    return state_.with([](const State& state) { return state.generation; });
}

void JobCache::fill(std::uint64_t generation, std::int64_t number, std::shared_ptr<const Job> job) {
    state_.with([&](State& state) {
        if (state.generation == generation) insert(state, number, std::move(job));
    });
}

void JobCache::put(std::int64_t number, std::shared_ptr<const Job> job) {
    state_.with([&](State& state) {
        ++state.generation;
        insert(state, number, std::move(job));
    });
}

void JobCache::erase(const JobId& id) {
    state_.with([&](State& state) {
        ++state.generation;
        const auto found = state.by_id.find(id.str());
        if (found != state.by_id.end()) drop(state, found->second);
    });
}

}  // namespace ty::jobs
