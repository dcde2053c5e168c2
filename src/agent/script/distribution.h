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
    std::optional<std::string> refusal;  ///< what cannot be had here, with the remedy
};
DistributionChoice choose_distribution(const plan::NodePlan& plan,
                                       const Hyperparameters& hyperparameters);

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
