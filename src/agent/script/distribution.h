// SPDX-License-Identifier: Apache-2.0
// How the processes of a script are started over a job's hosts, as AWS's framework images choose:
// mpi before pytorchddp before torch_distributed, else the plain script on every host.
#pragma once

#include "agent/contract/cluster.h"
#include "plan/plan.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

enum class Starter {
    plain,     ///< the script itself, once on this host
    torchrun,  ///< torch.distributed.run on every host
    mpi,       ///< mpirun
};

struct DistributionChoice {
    Starter starter = Starter::plain;
    Participants participants;
    int processes = 1;                   ///< on this host
    std::vector<std::string> options;    ///< further ones of mpirun
    bool mpi4py = false;                 ///< the job's Python has it
    std::string interface = "eth0";      ///< where the hosts meet
    std::optional<std::string> refusal;  ///< what cannot be had here, with the remedy
};
DistributionChoice choose_distribution(const plan::NodePlan& plan,
                                       const Hyperparameters& hyperparameters);

/// Starter::mpi: what comes before any command that is to run in all its processes.
std::vector<std::string> mpirun_command(const DistributionChoice& choice);

/// mpirun starts processes on other hosts as well.
bool spans_hosts(const DistributionChoice& choice);
/// Then: our program, which makes that possible, goes before the command of the first host…
std::vector<std::string> mpi_wrapper(const DistributionChoice& choice);
/// …and is what the others run: complete, without script and arguments. Empty: not such a host.
std::vector<std::string> mpi_server(const DistributionChoice& choice);

/// What comes before "script arguments…" or "-m module arguments…": interpreter and launcher. In an
/// elastic job that is our own torchrun, whoever would start the script otherwise.
std::vector<std::string> starter_command(const DistributionChoice& choice,
                                         const plan::NodePlan& plan,
                                         const std::string& interpreter);

/// Variables the starter needs besides the toolkit's.
plan::Pairs starter_variables(const DistributionChoice& choice);

/// True when a folder of this PATH holds the program; folders are looked at as they are here.
bool is_on_path(const std::string& program, const std::string& path);

}  // namespace ty::agent
