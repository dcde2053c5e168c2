// SPDX-License-Identifier: Apache-2.0
// The coordinator of an elastic job, hosted by the job's network process instead of one of its
// nodes: what it is started with, and what its nodes are told. See "External coordinator" in the
// launcher's README.
#pragma once

#include "agent/launcher/coordinator/coordinator_start.h"

#include <string>

namespace ty::agent {

struct ElasticJob {
    std::string id;     ///< TRAINYARD_RDZV_ID of its nodes
    std::string token;  ///< TRAINYARD_RDZV_TOKEN of its nodes; not empty
    int min_nodes = 1, max_nodes = 1;
    int expected_nodes = 0;  ///< started together; 0: unknown. The first generation waits for them
    int max_restarts = 0;    ///< after failures of the program; everything else is unlimited
    /// A checkpoint folder is known: newcomers are let in when a checkpoint is complete, else at
    /// once.
    bool has_checkpoints = false;
};

/// For CoordinatorHost. Throws invalid when the job makes no sense.
CoordinatorStart external_coordinator(const ElasticJob& job);

}  // namespace ty::agent
