// SPDX-License-Identifier: Apache-2.0
// Runs one program of the job after the other in a box: preparation steps and the training program.
// Knows what a job may see, which rung is in use, and when a run has to end.
#pragma once

#include "agent/contract/layout.h"
#include "agent/contract/results.h"
#include "agent/contract/variables.h"
#include "agent/orders.h"
#include "agent/sandbox/cgroup.h"
#include "agent/sandbox/sandbox.h"
#include "agent/script/python_layer.h"
#include "agent/shipping/log_pump.h"
#include "plan/plan.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

class JobNetwork;

struct RunSpec {
    std::vector<std::string> argv;
    Variables variables;
    std::string cwd = "/";
    std::vector<BoxBind> binds;  ///< besides what every run sees
    /// Preparations stay in the machine's network: package indexes are there.
    enum class Place { machine, job } place = Place::machine;
    /// Asks the program to leave within the time, in its own way; false: it cannot be asked, and
    /// gets SIGTERM. Empty: SIGTERM.
    std::function<bool(milliseconds, const std::string& why)> leave;
    std::function<void()> before_kill;  ///< SIGKILL comes next
    /// Called once a second while the program runs, and after its end.
    std::function<void()> on_tick;
};

struct RunEnd {
    enum class Why { ended, stopped, interrupted, timed_out, gone } why = Why::ended;
    BoxEnd box;
    bool out_of_memory = false;
    Tail tail;  ///< what it printed last
};

class Runner {
public:
    /// `node`: our name among all agents of the attempt.
    Runner(const plan::NodePlan& plan, const HostPaths& host, const std::string& node,
           ProbeResult probe, LogPump& pump, Orders& orders);

    Rung rung() const { return probe_.rung; }
    /// "namespaces"; with what is missing: "process (create namespaces: Operation not permitted)".
    std::string description() const;
    /// /opt/ml as the program names it.
    ProgramPaths program_paths() const;
    std::string home() const;
    /// How the program names a file in the job's scratch folder that is bound at `inside`.
    std::string seen_as(const sys::fs::path& on_host, const std::string& inside) const;
    /// Shown to every later run.
    void add_bind(BoxBind bind);
    /// Programs of the job (Place::job) run there; it outlives the runner. Throws unsupported where
    /// programs have no namespaces of their own.
    void join(const JobNetwork& network);

    /// Blocks until the program and all it left behind is gone. `until`: end of the max run time;
    /// `grace`: from SIGTERM to SIGKILL then. A stop order that comes before the program exists
    /// reaches it as its first signal.
    RunEnd run(const RunSpec& spec, Deadline until, seconds grace);

private:
    BoxPlan box_plan(const RunSpec& spec) const;
    RunEnd watch(Box& box, const RunSpec& spec, Deadline until, seconds grace);

    const plan::NodePlan& plan_;
    const HostPaths host_;
    ProbeResult probe_;
    LogPump& pump_;
    Orders& orders_;
    Cgroup cgroup_;
    const JobNetwork* network_ = nullptr;
    std::vector<BoxBind> binds_;
};

}  // namespace ty::agent
