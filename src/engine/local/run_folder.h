// SPDX-License-Identifier: Apache-2.0
// One agent's folder <state>/runs/<attempt>/<host>: what is in it, and what it says about the
// agent.
//
//   start.json   URL, token, host, network, GPUs for the agent (0600), complete before it exists
//   network.json instead, in the folder of an attempt's network process
//   engine.lock  locked from before the spawn until the agent is gone: the agent inherits the
//                locked descriptor, so there is no moment in which it runs unlocked
//   engine.pid   "<pid> <start ticks>", written by the engine after the spawn
//   agent.pid    the same, written by the agent itself: there even if the daemon died in between
//   agent.log    stdout and stderr of the agent
//   agent.done   the agent ended in good order
//
// None of this is synced to the disk: it must survive a killed daemon, and after a power cut there
// are no agents to know about.
#pragma once

#include "engine/engine.h"
#include "sys/sys.h"

#include <optional>

namespace ty::engine {

/// A process that cannot be confused with a later one of the same number.
struct ProcessId {
    int pid = 0;
    long long start_ticks = 0;
};

/// True when that very process still exists and is not a zombie.
bool is_alive(const ProcessId& process);
/// Descriptor that becomes readable when the process ends; not open when it is gone already.
sys::Fd watch_process(const ProcessId& process);

class RunFolder {
public:
    explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
    const std::filesystem::path& path() const { return path_; }

    void create() const;
    /// `network`: socket of the attempt's network process, or empty.
    void write_start(const AttemptId& attempt, const AgentStart& start,
                     const std::filesystem::path& network, const std::vector<int>& gpus) const;
    void write_network(const Network& network, const std::string& control_plane) const;
    /// What write_start() was given.
    std::vector<int> read_gpus() const;
    /// The locked descriptor to hand to the agent; not open when somebody holds the lock.
    sys::Fd lock() const;
    bool is_locked() const;
    void write_pid(const ProcessId& process) const;
    /// What the engine or the agent recorded; nullopt when the agent never started.
    std::optional<ProcessId> read_pid() const;
    sys::Fd open_log() const;

private:
    std::filesystem::path path_;
};

}  // namespace ty::engine
