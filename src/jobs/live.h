// SPDX-License-Identifier: Apache-2.0
// The attempts that are not over, in memory: whom a token speaks for, what an agent's held sync
// waits for, whose credentials are valid. Rebuilt from the database at start. Any thread.
#pragma once

#include "base/sync.h"
#include "jobs/jobs.h"

#include <memory>

namespace ty::jobs {

struct LiveNode {
    std::uint64_t seen = 0;
    std::vector<plan::Command> commands;  ///< numbered from 1
    bool finished = false;
};

struct LiveAttempt {
    AttemptId id;
    std::int64_t number = 0;  ///< row of the job
    JobId job;
    std::string region, name;
    std::int64_t version = 0;               ///< of the job this was made from
    std::map<std::string, LiveNode> nodes;  ///< that are not released
    bool over = false;                      ///< nothing more is wanted of it; the agents may go
    bool job_over = false;                  ///< the job is terminal
    bool released = false;

    bool has_node(const std::string& node) const { return nodes.contains(node); }
};
using LivePtr = std::shared_ptr<const LiveAttempt>;

/// What a sync is answered with.
struct Waited {
    bool gone = true;
    std::uint64_t seen = 0;
    std::uint64_t number = 0;  ///< of `command`
    std::optional<plan::Command> command;
};

class LiveAttempts {
public:
    /// After a commit. A job has one attempt here, its last; it leaves when the job is over and the
    /// attempt released. An older version is ignored.
    void put(std::int64_t number, const Job& job);
    void erase(const AttemptId& attempt);
    LivePtr find(const AttemptId& attempt) const;  ///< null: unknown or over
    /// Number of jobs that are not terminal.
    std::size_t running() const;

    void set_access_key(const AttemptId& attempt, const std::string& access_key);
    std::optional<AttemptId> find_access_key(const std::string& access_key) const;

    /// Hold until there is a command beyond `commands_seen`, the node is done, the deadline or
    /// stop.
    Waited wait(const AttemptId& attempt, const std::string& node, std::uint64_t commands_seen,
                Deadline by, const std::stop_token& stop) const;
    void wake();

private:
    struct State {
        std::map<std::string, LivePtr> attempts;
        std::map<std::int64_t, std::string> by_job;      // row of a job -> its attempt
        std::map<std::string, std::string> access_keys;  // access key -> attempt
        std::size_t running = 0;
    };
    static void drop(State& state, std::map<std::string, LivePtr>::iterator entry);

    mutable Sync<State> state_;
};

}  // namespace ty::jobs
