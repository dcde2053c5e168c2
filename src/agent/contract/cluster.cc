// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/cluster.h"

#include <algorithm>
#include <array>

namespace ty::agent {

namespace {

constexpr std::array<std::string_view, 7> kSwitches = {
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_torch_distributed_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled"};

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> distribution_groups(const plan::NodePlan& plan,
                                             const Hyperparameters& hyperparameters) {
    const PythonValue* given =
        hyperparameters.find_framework("sagemaker_distribution_instance_groups");
    std::vector<std::string> groups;
    if (given != nullptr && given->kind() == PythonValue::Kind::list) {
        for (const PythonValue& item : given->items()) groups.push_back(item.str());
        return groups;
    }
    const bool any = std::ranges::any_of(
        kSwitches, [&](std::string_view name) { return hyperparameters.framework_flag(name); });
    if (any) groups.push_back(plan.instance_group);
    return groups;
}

}  // namespace

std::vector<plan::InstanceGroup> groups_of(const plan::NodePlan& plan) {
    if (!plan.groups.empty()) return plan.groups;
    return {{plan.instance_group, plan.instance_type, plan.hosts}};
}

std::vector<std::string> group_hosts(const plan::NodePlan& plan) {
    for (const plan::InstanceGroup& group : groups_of(plan)) {
        if (group.name == plan.instance_group) return group.hosts;
    }
    return {};
}

Participants participants_of(const plan::NodePlan& plan, const Hyperparameters& hyperparameters) {
    Participants all;
    all.groups = distribution_groups(plan, hyperparameters);
    for (const plan::InstanceGroup& group : groups_of(plan)) {
        if (is_one_of(all.groups, group.name))
            all.hosts.insert(all.hosts.end(), group.hosts.begin(), group.hosts.end());
    }
    const auto own = std::ranges::find(all.hosts, plan.host);
    if (own != all.hosts.end()) all.rank = static_cast<int>(own - all.hosts.begin());
    all.master = !all.hosts.empty()    ? all.hosts.front()
                 : !plan.hosts.empty() ? plan.hosts.front()
                                       : plan.host;
    return all;
}

}  // namespace ty::agent
