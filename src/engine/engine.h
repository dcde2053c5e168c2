// SPDX-License-Identifier: Apache-2.0
// Placing agents: start N agents with N plans, tell which still exist, remove them. Nothing else.
#pragma once

#include "base/id.h"
#include "base/time.h"
#include "plan/plan.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ty::engine {

/// What an agent is told at start; the rest it fetches with the token.
struct AgentStart {
    std::string host;           ///< name of the node: "algo-1", or "algo-1~2" for the second agent
                                ///< that is host algo-1 in one attempt
    std::string control_plane;  ///< URL
    std::string token;          ///< valid for this attempt only
};

/// What the hosts of one attempt share: a network of their own, in which algo-1 … algo-N have
/// addresses before any of them starts.
struct Network {
    int hosts = 0;           ///< N
    std::string rendezvous;  ///< of an elastic job: JSON {"run_id","min_nodes","max_nodes",
                             ///< "expected_nodes","max_restarts","checkpoints":bool,"token"}
};

struct Placement {
    AttemptId attempt;
    std::vector<AgentStart> agents;
    std::optional<Network> network;  ///< absent: one host, which shares the machine's
    int gpus = 0;                    ///< for each agent, disjoint between all that run
};

/// Host under which the end of an attempt's network is reported: all its hosts are cut off.
inline constexpr const char* kNetworkHost = "network";

enum class AgentState { running, gone };
struct Allocation {
    AttemptId attempt;
    std::string host;
    AgentState state = AgentState::running;
    std::string ending;  ///< how it went, when known: "SIGKILL (signal 9)"
};

struct Capacity {
    int cpus = 0;
    int gpus = 0;
};

class Engine {
public:
    virtual ~Engine() = default;
    virtual std::string name() const = 0;
    virtual Capacity capacity() const = 0;
    /// Idempotent by attempt and host: an agent that already runs is not started twice. May be
    /// called again for the same attempt with further agents.
    virtual void launch(const Placement& placement) = 0;
    /// Every agent known, also those started by an earlier daemon; gone ones until released.
    virtual std::vector<Allocation> list() = 0;
    /// Kill what still runs, leave no process, remove the attempt's folder. Idempotent.
    virtual void release(const AttemptId& attempt) = 0;
    /// The same for one node of an attempt that goes on.
    virtual void release(const AttemptId& attempt, const std::string& host) = 0;
    /// SIGKILL to one agent, without a word to it: on_gone follows. Nothing when it is gone.
    virtual void kill(const AttemptId& attempt, const std::string& host) = 0;
    /// Called from an engine thread when an agent ends.
    virtual void on_gone(std::function<void(const Allocation&)> fn) = 0;
};

/// Resources behind an instance type. Throws invalid for an unknown type, naming the nearest.
struct InstanceType {
    std::string name;
    int cpus = 0;
    int gpus = 0;
};
const InstanceType* find_instance_type(std::string_view name);
std::vector<std::string> instance_type_names();

}  // namespace ty::engine
