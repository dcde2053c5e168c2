// SPDX-License-Identifier: Apache-2.0
// Environment of the program: what the service sets in every container, and the SM_* variables the
// training toolkit adds in script mode.
#pragma once

#include "agent/contract/arguments.h"
#include "agent/contract/layout.h"
#include "plan/plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

/// Facts the variables need besides the plan.
struct NodeFacts {
    ProgramPaths paths;
    std::string network_interface = "lo";
    int cpus = 1;
    std::string home = "/root";
    std::vector<int> gpus;            ///< indexes of ours among the machine's
    std::string language, time_zone;  ///< LANG and TZ of the host; empty: not set
};

/// Ordered, unique names; later values replace earlier ones.
class Variables {
public:
    void set(std::string name, std::string value);
    void set_default(std::string name, std::string value);
    void merge(const plan::Pairs& pairs);
    const std::string* find(std::string_view name) const;
    const plan::Pairs& pairs() const { return pairs_; }
    /// "NAME=value" for execve. Names that cannot be passed on (empty, with '=' or NUL) are left
    /// out.
    std::vector<std::string> to_environ() const;

private:
    plan::Pairs pairs_;
};

/// Image, then request, then service: the service's names win. `bin` folders come first in PATH.
Variables container_variables(const plan::NodePlan& plan, const NodeFacts& facts,
                              const std::vector<std::string>& bin);

/// What script mode knows beyond the plan.
struct ScriptFacts {
    std::string program;  ///< sagemaker_program as given, "train.py"
    std::string submit;   ///< sagemaker_submit_directory as given
    std::vector<std::string> arguments;
};

/// Every SM_* name of the toolkit, plus MASTER_ADDR and its companions.
plan::Pairs toolkit_variables(const plan::NodePlan& plan, const NodeFacts& facts,
                              const Hyperparameters& hyperparameters, const ScriptFacts& script);

}  // namespace ty::agent
