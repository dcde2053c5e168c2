// SPDX-License-Identifier: Apache-2.0
#include "agent/script/distribution.h"

#include "agent/mpi/mpi.h"
#include "agent/own_program.h"
#include "base/format.h"
#include "base/text.h"

#include <algorithm>
#include <array>

#include <unistd.h>

namespace ty::agent {

namespace {

/// What takes libraries that only AWS has, or a cluster of another kind.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kUnsupported = {{
    {"sagemaker_distributed_dataparallel_enabled", "smdistributed dataparallel"},
    {"sagemaker_parameter_server_enabled", "parameter_server"},
    {"sagemaker_multi_worker_mirrored_strategy_enabled", "multi_worker_mirrored_strategy"},
    {"sagemaker_pytorch_xla_multi_worker_enabled", "pytorchxla"},
}};

std::optional<std::string> unsupported(const Hyperparameters& hyperparameters) {
    const auto refuse = [](std::string_view what) {
        return format(
            "distribution \"{}\" is not available in this version; use torch_distributed "
            "or none",
            what);
    };
    for (const auto& [name, what] : kUnsupported) {
        if (hyperparameters.framework_flag(name)) return refuse(what);
    }
    const bool parallel = std::ranges::any_of(
        hyperparameters.user, [](const auto& member) { return member.first == "mp_parameters"; });
    if (parallel) return refuse("smdistributed modelparallel");
    return std::nullopt;
}

int processes_of(const plan::NodePlan& plan, const Hyperparameters& hyperparameters) {
    if (const auto given =
            hyperparameters.framework_text("sagemaker_mpi_num_of_processes_per_host")) {
        if (const auto number = parse_int(*given); number && *number > 0 && *number <= 4096)
            return static_cast<int>(*number);
    }
    return std::max(1, plan.gpus);
}

std::optional<std::string> refuse_mpi(const plan::NodePlan& plan) {
    if (!plan.elastic) return std::nullopt;
    return "distribution \"mpi\" cannot change its number of hosts while it runs; use "
           "torch_distributed, or a job that is not elastic";
}

/// The user's own; --NCCL_DEBUG is the toolkit's word for a variable.
std::vector<std::string> mpi_options(const Hyperparameters& hyperparameters) {
    constexpr std::string_view kDebug = "--NCCL_DEBUG";
    std::vector<std::string> options;
    bool level = false;
    for (const std::string& word :
         split(hyperparameters.framework_text("sagemaker_mpi_custom_mpi_options").value_or(""),
               ' ')) {
        if (word.empty()) continue;
        if (word == kDebug) {
            level = true;
        } else if (level) {
            options.insert(options.end(), {"-x", "NCCL_DEBUG=" + word});
            level = false;
        } else if (word.starts_with(std::string(kDebug) + "=")) {
            options.insert(options.end(), {"-x", word.substr(2)});
        } else {
            options.push_back(word);
        }
    }
    return options;
}

std::string own_program() {
    return std::string(kOwnBin) + "/trainyard-agent";
}

/// As the training toolkit starts Open MPI, but for the remote shell, and for "-x": every host has
/// its variables already, and its own SM_CURRENT_HOST among them.
std::vector<std::string> mpirun_over_hosts(const DistributionChoice& choice) {
    std::vector<std::string> hosts;
    for (const std::string& host : choice.participants.hosts) {
        hosts.push_back(choice.processes == 1 ? host : format("{}:{}", host, choice.processes));
    }
    std::vector<std::string> argv = {
        "mpirun", "--host", join(hosts, ","), "-np",
        std::to_string(static_cast<std::size_t>(choice.processes) * hosts.size())};
    argv.insert(argv.end(),
                {"--allow-run-as-root", "--tag-output", "-bind-to", "none", "-map-by", "slot"});
    const std::pair<const char*, std::string> parameters[] = {
        {"plm_rsh_agent", own_program() + " rsh"},
        {"plm_rsh_no_tree_spawn", "1"},
        {"btl_tcp_if_include", choice.interface},
        {"oob_tcp_if_include", choice.interface},
        {"pml", "ob1"},
        {"btl", "^openib"},
        {"btl_vader_single_copy_mechanism", "none"},
        {"orte_abort_on_non_zero_status", "1"}};
    for (const auto& [name, value] : parameters) argv.insert(argv.end(), {"-mca", name, value});
    return argv;
}

}  // namespace

DistributionChoice choose_distribution(const plan::NodePlan& plan,
                                       const Hyperparameters& hyperparameters) {
    DistributionChoice choice;
    choice.refusal = unsupported(hyperparameters);
    choice.participants = participants_of(plan, hyperparameters);
    if (choice.refusal || choice.participants.rank < 0) return choice;
    choice.processes = processes_of(plan, hyperparameters);
    if (hyperparameters.framework_flag("sagemaker_mpi_enabled")) {
        choice.starter = Starter::mpi;
        choice.refusal = refuse_mpi(plan);
        choice.options = mpi_options(hyperparameters);
    } else if (hyperparameters.framework_flag("sagemaker_pytorch_ddp_enabled") ||
               hyperparameters.framework_flag("sagemaker_torch_distributed_enabled")) {
        choice.starter = Starter::torchrun;
    }
    return choice;
}

std::vector<std::string> mpirun_command(const DistributionChoice& choice) {
    std::vector<std::string> argv = {"mpirun", "-np", std::to_string(choice.processes)};
    if (spans_hosts(choice)) argv = mpirun_over_hosts(choice);
    argv.insert(argv.end(), choice.options.begin(), choice.options.end());
    return argv;
}

bool spans_hosts(const DistributionChoice& choice) {
    return choice.starter == Starter::mpi && choice.participants.hosts.size() > 1;
}

std::vector<std::string> mpi_wrapper(const DistributionChoice& choice) {
    const std::vector<std::string>& hosts = choice.participants.hosts;
    if (!spans_hosts(choice)) return {};
    return {own_program(), "mpi-run", join(hosts, ","), std::to_string(choice.processes), "--"};
}

std::vector<std::string> mpi_server(const DistributionChoice& choice) {
    if (!spans_hosts(choice) || choice.participants.rank == 0) return {};
    const auto rank = static_cast<std::size_t>(choice.participants.rank);
    return {own_program(), "rsh-serve", choice.participants.hosts[rank], std::to_string(kMpiPort)};
}

std::vector<std::string> starter_command(const DistributionChoice& choice,
                                         const plan::NodePlan& plan,
                                         const std::string& interpreter) {
    const std::string processes = std::to_string(choice.processes);
    if (plan.elastic) {
        if (choice.starter != Starter::torchrun) return {"torchrun"};
        return {"torchrun", "--nproc_per_node", processes};
    }
    const std::size_t hosts = choice.participants.hosts.size();
    switch (choice.starter) {
        case Starter::plain:
            return {interpreter};
        case Starter::torchrun: {
            std::vector<std::string> argv = {interpreter,
                                             "-m",
                                             "torch.distributed.run",
                                             "--nnodes",
                                             std::to_string(hosts),
                                             "--nproc_per_node",
                                             processes};
            if (hosts > 1) {
                argv.insert(argv.end(),
                            {"--master_addr", choice.participants.master, "--master_port", "7777",
                             "--node_rank", std::to_string(choice.participants.rank)});
            }
            return argv;
        }
        case Starter::mpi: {
            std::vector<std::string> argv = mpirun_command(choice);
            argv.push_back(interpreter);
            // It ends all processes when one of them throws.
            if (choice.mpi4py) argv.insert(argv.end(), {"-m", "mpi4py"});
            return argv;
        }
    }
    return {interpreter};
}

plan::Pairs starter_variables(const DistributionChoice& choice) {
    switch (choice.starter) {
        case Starter::plain:
            return {};
        case Starter::torchrun:
            return {{"NCCL_PROTO", "simple"}};
        case Starter::mpi:
            // Open MPI refuses root and more processes than cores unless it is told; as variables,
            // because other implementations do not know the options.
            return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}};
    }
    return {};
}

bool is_on_path(const std::string& program, const std::string& path) {
    return std::ranges::any_of(split(path, ':'), [&](const std::string& folder) {
        return !folder.empty() && ::access((folder + "/" + program).c_str(), X_OK) == 0;
    });
}

}  // namespace ty::agent
