// SPDX-License-Identifier: Apache-2.0
// Who takes part: the job's hosts in their groups, and those a distribution starts its processes
// on. Pure; the rules are the training toolkit's.
#pragma once

#include "agent/contract/arguments.h"
#include "plan/plan.h"

#include <string>
#include <vector>

namespace ty::agent {

/// The plan's groups, or the one of all hosts.
std::vector<plan::InstanceGroup> groups_of(const plan::NodePlan& plan);
/// Hosts of our own group.
std::vector<std::string> group_hosts(const plan::NodePlan& plan);

/// Where a distribution runs.
struct Participants {
    std::vector<std::string> groups;  ///< empty: there is no distribution
    std::vector<std::string> hosts;   ///< of those groups, in their order
    std::string master;               ///< the first of them; without any, the first of all
    /// Our place among `hosts`; -1: we run the plain script.
    int rank = -1;
};
/// `sagemaker_distribution_instance_groups`; when it is not given, our group if any distribution is
/// switched on.
Participants participants_of(const plan::NodePlan& plan, const Hyperparameters& hyperparameters);

}  // namespace ty::agent
