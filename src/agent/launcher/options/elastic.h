// SPDX-License-Identifier: Apache-2.0
// A launcher that is the program of an elastic job's box: who the nodes are and where they meet is
// the job's to say, in variables, whatever the command line says.
//
// Private to the launcher's options; pure functions.
#pragma once

#include "agent/launcher/options/flags.h"

#include <string>

namespace ty::agent {

/// The variable that makes a launch one of an elastic job: "1:4".
inline constexpr const char* kElasticNodes = "TRAINYARD_ELASTIC_NODES";
/// Where the agent of the node listens for its launcher.
inline constexpr const char* kNodeSocket = "TRAINYARD_NODE_SOCKET";

/// Puts the variables' values in the place of the command line's. Returns what that changed, for
/// people: "--nnodes 2 becomes 1:4, --standalone does not count"; empty: nothing. Throws invalid
/// when a variable is missing.
std::string take_membership(SplitLine& line, EnvLookup env);

/// What the launcher has been told for itself and its workers must not take for theirs: a launcher
/// started by a worker is no node of the job.
bool is_membership(std::string_view variable);

}  // namespace ty::agent
