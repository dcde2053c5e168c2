// SPDX-License-Identifier: Apache-2.0
// The attempts that are not over, in memory: whom a token speaks for, what an agent's held sync
// waits for, whose credentials are valid. Rebuilt from the database at start. Any thread.
#pragma once

#include "base/sync.h"
#include "jobs/jobs.h"

#include <set>

namespace ty::jobs {

struct LiveAttempt {
    AttemptId id;
    std::int64_t number = 0;  ///< row of the job
    JobId job;
    std::string region, name;
    std::int64_t version = 0;  ///< of the job this was made from
    std::vector<std::string> hosts;
    bool stop = false;  ///< agents are to stop
    bool over = false;  ///< the job is terminal; the agents may go
    std::map<std::string, std::uint64_t> seen;
    std::set<std::string> finished;

    bool has_host(const std::string& host) const;
};

/// What a sync is answered with.
struct Waited {
    bool gone = true;
    bool stop = false;
    std::uint64_t seen = 0;
};

class LiveAttempts {
public:
    /// After a commit. A released attempt leaves; an older version is ignored.
    void put(std::int64_t number, const Job& job);
    void erase(const AttemptId& attempt);
    std::optional<LiveAttempt> find(const AttemptId& attempt) const;
    /// Number of jobs that are not terminal.
    std::size_t running() const;

    void set_access_key(const AttemptId& attempt, const std::string& access_key);
    std::optional<AttemptId> find_access_key(const std::string& access_key) const;

    /// Hold until there is a command beyond `commands_seen`, the host is done, the deadline or
    /// stop.
    Waited wait(const AttemptId& attempt, const std::string& host, std::uint64_t commands_seen,
                Deadline by, const std::stop_token& stop) const;
    void wake();

private:
    struct State {
        std::map<std::string, LiveAttempt> attempts;
        std::map<std::string, std::string> access_keys;  // access key -> attempt
        std::size_t running = 0;
    };
    mutable Sync<State> state_;
};

}  // namespace ty::jobs
