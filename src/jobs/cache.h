// SPDX-License-Identifier: Apache-2.0
// Hot jobs in memory: Describe is asked thousands of times for a job that moved once. Bounded,
// least recently used first out. Any thread.
//
// A writer puts the job after its commit; versions keep a slower writer from putting back an older
// one. A reader that loaded from the database may have been overtaken by a writer meanwhile, so it
// says which generation it began in and is ignored when anything was written since.
#pragma once

#include "base/sync.h"
#include "jobs/jobs.h"

#include <list>
#include <memory>
#include <unordered_map>

namespace ty::jobs {

struct Cached {
    std::int64_t number = 0;
    std::shared_ptr<const Job> job;  ///< null: not here
};

class JobCache {
public:
    explicit JobCache(std::size_t capacity) : capacity_(capacity) {}

    Cached find(const std::string& region, const std::string& name);
    Cached find(const JobId& id);
    /// Take before reading the database, give to fill().
    std::uint64_t generation() const;
    void fill(std::uint64_t generation, std::int64_t number, std::shared_ptr<const Job> job);
    /// After a commit.
    void put(std::int64_t number, std::shared_ptr<const Job> job);
    void erase(const JobId& id);

private:
    struct Entry {
        std::string name_key;
        Cached cached;
    };
    using Entries = std::list<Entry>;  // most recently used first
    struct State {
        std::uint64_t generation = 0;
        Entries entries;
        std::unordered_map<std::string, Entries::iterator> by_id;
        std::unordered_map<std::string, Entries::iterator> by_name;
    };
    static Cached touch(State& state, Entries::iterator entry);
    static void drop(State& state, Entries::iterator entry);
    void insert(State& state, std::int64_t number, std::shared_ptr<const Job> job) const;

    const std::size_t capacity_;
    mutable Sync<State> state_;
};

}  // namespace ty::jobs
