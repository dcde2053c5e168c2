// SPDX-License-Identifier: Apache-2.0
#include "agent/script/processes.h"

#include "base/format.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::agent {

namespace {

constexpr const char* kProcesses = "processes_per_host";
constexpr long long kMostProcesses = 4096;

/// Ours, or what the SDKs' torch_distributed and mpi send; nullopt: neither.
std::optional<std::string> given_processes(const Hyperparameters& hyperparameters) {
    for (const auto& [name, value] : hyperparameters.user) {
        if (name == kProcesses) return value.str();
    }
    return hyperparameters.framework_text("sagemaker_mpi_num_of_processes_per_host");
}

bool is_asked_for(const Hyperparameters& hyperparameters) {
    return std::ranges::any_of(
        std::array{"sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled",
                   "sagemaker_mpi_enabled"},
        [&](const char* name) { return hyperparameters.framework_flag(name); });
}

}  // namespace

DistributionChoice choose_processes(const plan::NodePlan& plan,
                                    const Hyperparameters& hyperparameters) {
    DistributionChoice choice;
    choice.processes = std::max(1, plan.gpus);
    if (const auto given = given_processes(hyperparameters)) {
        const auto number = parse_int(*given);
        if (!number || *number < 1 || *number > kMostProcesses) {
            choice.refusal = format("hyperparameter {}: {} is not a number from 1 to {}",
                                    kProcesses, *given, kMostProcesses);
            return choice;
        }
        choice.processes = static_cast<int>(*number);
    }
    choice.participants = participants_of(plan, hyperparameters);
    if (choice.participants.groups.empty()) {
        const auto own = std::ranges::find(plan.hosts, plan.host);
        choice.participants = {.groups = {},
                               .hosts = plan.hosts,
                               .master = plan.hosts.empty() ? plan.host : plan.hosts.front(),
                               .rank = static_cast<int>(own - plan.hosts.begin())};
    }
    if (choice.participants.rank < 0) return choice;  // another group trains; we are alone
    const bool several = choice.processes > 1 || choice.participants.hosts.size() > 1;
    if (several || plan.elastic || is_asked_for(hyperparameters))
        choice.starter = Starter::torchrun;
    return choice;
}

std::vector<std::string> launcher_command(const DistributionChoice& choice,
                                          const plan::NodePlan& plan,
                                          const std::vector<std::string>& launcher) {
    if (choice.starter != Starter::torchrun) return {};
    std::vector<std::string> argv = launcher;
    const std::size_t hosts = choice.participants.hosts.size();
    if (!plan.elastic && hosts > 1) {
        argv.insert(argv.end(), {"--nnodes", std::to_string(hosts), "--master_addr",
                                 choice.participants.master, "--master_port", "7777", "--node_rank",
                                 std::to_string(choice.participants.rank)});
    }
    argv.insert(argv.end(), {"--nproc_per_node", std::to_string(choice.processes), "--no-python"});
    return argv;
}

plan::Pairs launcher_variables(const DistributionChoice& choice, const plan::NodePlan& plan,
                               int cpus) {
    if (choice.starter != Starter::torchrun) return {};
    int sharing = choice.processes;
    if (plan.limits.cpus == 0) sharing *= static_cast<int>(choice.participants.hosts.size());
    return {{"OMP_NUM_THREADS", std::to_string(std::max(1, cpus / std::max(1, sharing)))},
            {"NCCL_PROTO", "simple"}};
}

}  // namespace ty::agent
