// SPDX-License-Identifier: Apache-2.0
// From a plan to the command that is run: the container's own entry point, or what AWS's training
// toolkit does in script mode (source, requirements, arguments, SM_* variables).
#pragma once

#include "agent/contract/variables.h"
#include "agent/runner.h"
#include "agent/script/python_layer.h"
#include "agent/transfer/download.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

struct Launch {
    RunSpec run;
    bool script_mode = false;
    std::string command;                 ///< as failure texts show it
    std::optional<std::string> refusal;  ///< complete FailureReason instead of a command
    bool interrupted = false;            ///< an order ended the preparation
};

struct LaunchContext {
    const plan::NodePlan& plan;
    const HostPaths& host;
    NodeFacts facts;
    Runner& runner;
    LogPump& pump;
    Orders& orders;
    MakeClient make_client;
    sys::fs::path cache;
    Deadline by = Deadline::never();  ///< for transfers
};

/// Everything up to the program's start, running preparation steps in boxes. Throws what transfers
/// throw; the user's mistakes come back as `refusal`.
Launch prepare_launch(const LaunchContext& context);

}  // namespace ty::agent
