// SPDX-License-Identifier: Apache-2.0
// Standby interpreters: the very process a cold start would make (`python -u script.py args`), held
// before its first line runs, with the modules the script imports already imported.
//
// A sitecustomize of ours, put in front of PYTHONPATH, runs before the interpreter opens the
// script: it restores PYTHONPATH and sys.path, runs the user's own sitecustomize if there is one,
// imports what the script's import statements name (found by reading, never by running it; nothing
// from the script's own folder), says "ready" on a socket, and waits. "Go" brings the environment
// and the standard streams; the interpreter then goes on as if it had just started. It exits
// instead, and a cold start follows, when a variable that an import has read differs, or a module
// it loaded is shadowed by the script's folder. A probe makes sure beforehand that the interpreter
// runs the hook at all, so that a standby can never run the script unasked.
//
// Used by the launcher's one thread.
#pragma once

#include "sys/sys.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

/// What distinguishes one cold start from another.
struct WarmRecipe {
    int local_rank = 0;
    std::vector<std::string>
        argv;  ///< {python, -u, script, args…} or {python, -u, -m, module, args…}
    std::vector<std::string> env;  ///< as the next generation is expected to have it
    std::vector<int> cpus = {};    ///< as WorkerSpec has them
    bool operator==(const WarmRecipe&) const = default;
};

class WarmPool {
public:
    /// Makes a private folder for the hook. `poller` watches standbys that die early.
    explicit WarmPool(sys::Poller& poller);
    ~WarmPool();  ///< kills all standbys, removes the folder

    /// Start standbys for these slots in the background, one after another; replaces those whose
    /// recipe changed. Never blocks, never throws: a slot that cannot be warmed stays cold, with
    /// the reason in why_cold().
    void prepare(const std::vector<WarmRecipe>& recipes);
    /// Every prepared slot is either ready or given up.
    bool settled() const;
    int ready() const;
    std::string why_cold() const;
    /// Called (from the poller) when settled() becomes true.
    void on_settled(std::function<void()> fn);

    /// A standby for exactly this argv, released with this environment and these descriptors (-1:
    /// keep ours). nullopt: start cold. The process is our child, its program runs from now on;
    /// waits for its answer, a millisecond as a rule, 100 at most.
    std::optional<pid_t> take(int local_rank, const std::vector<std::string>& argv,
                              const std::vector<std::string>& env, int stdout_fd, int stderr_fd,
                              int cgroup_procs);
    void discard_all();
    std::vector<pid_t> pids() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ty::agent
