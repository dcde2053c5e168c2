// SPDX-License-Identifier: Apache-2.0
// MPI over several hosts of a job, without sshd and keys: our own remote shell between the boxes.
//
// The program of the first host is `trainyard-agent mpi-run <hosts> <processes> -- mpirun …`, that
// of the others `trainyard-agent rsh-serve`; mpirun starts its daemons on them through
// `trainyard-agent rsh`, which Open MPI takes for ssh. All three know the job's secret and serve
// nobody else.
#pragma once

#include "plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ty::agent {

/// Every host has an address of its own, so one number does for all jobs.
inline constexpr std::uint16_t kMpiPort = 7722;

/// What the three programs find in their environment. Holds the job's secret: never logged.
plan::Pairs mpi_variables(const plan::NodePlan& plan);

/// `mpi-run <host,host,…> <processes> -- command…`: waits until every host but the first, which is
/// this one, serves; runs the command, marks its lines with rank and host (so many processes on
/// each), and tells the hosts how it ended. Returns the command's exit code; 1 when a host was lost
/// or never came.
int mpi_run_main(const std::vector<std::string>& words);

/// `rsh-serve <host> <port> [milliseconds]`: runs what mpirun asks for, until mpi-run says how it
/// ended: returns that code, or 1 when mpi-run is gone without a word. A bad end is kept back for
/// `milliseconds` (or until SIGTERM): the first host, which knows why, should be heard first.
int rsh_serve_main(const std::vector<std::string>& words);

/// `rsh <host> command…`: as ssh without a terminal and without standard input; 255 when there is
/// no way to the host.
int rsh_main(const std::vector<std::string>& words);

}  // namespace ty::agent
