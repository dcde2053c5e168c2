// SPDX-License-Identifier: Apache-2.0
// How the processes of an environment with `launcher` are started over a job's hosts: by our own
// torchrun, which needs neither Python nor torch, or, where one process trains alone, as it is.
#pragma once

#include "agent/script/distribution.h"

#include <string>
#include <vector>

namespace ty::agent {

/// All hosts take part, unless a distribution names instance groups. Processes on each:
/// hyperparameter processes_per_host, or what `distribution` gives for it, else one for each GPU,
/// at least one.
DistributionChoice choose_processes(const plan::NodePlan& plan,
                                    const Hyperparameters& hyperparameters);

/// What comes before the program; empty: nothing. `launcher`: our torchrun as words.
std::vector<std::string> launcher_command(const DistributionChoice& choice,
                                          const plan::NodePlan& plan,
                                          const std::vector<std::string>& launcher);

/// OMP_NUM_THREADS that divides the cores among the processes: those of this host, and those of all
/// hosts where they have no share of their own.
plan::Pairs launcher_variables(const DistributionChoice& choice, const plan::NodePlan& plan,
                               int cpus);

}  // namespace ty::agent
