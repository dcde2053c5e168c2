// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/coordinator/external.h"

#include "base/error.h"

namespace ty::agent {

namespace {

/// Boxes of one job become ready within seconds of each other.
constexpr milliseconds kFirstLastCall{10000};

}  // namespace

CoordinatorStart external_coordinator(const ElasticJob& job) {
    const bool possible = job.min_nodes >= 1 && job.max_nodes >= job.min_nodes &&
                          job.expected_nodes >= 0 && job.max_restarts >= 0;
    if (!possible) {
        throw_error(Code::invalid, "",
                    "the elastic job \"{}\" wants {}:{} nodes, {} to begin with, and {} restarts; "
                    "the range must grow and start from 1, nothing may be negative",
                    job.id, job.min_nodes, job.max_nodes, job.expected_nodes, job.max_restarts);
    }
    if (job.id.empty() || job.token.empty()) {
        throw_error(Code::invalid, "",
                    "the elastic job \"{}\" has no {}: anybody could join it; make one", job.id,
                    job.id.empty() ? "id" : "token");
    }
    CoordinatorStart start;
    start.policy.run_id = job.id;
    start.policy.min_nodes = job.min_nodes;
    start.policy.max_nodes = job.max_nodes;
    start.policy.expected_nodes = job.expected_nodes;
    start.policy.last_call = kFirstLastCall;
    start.policy.max_restarts = job.max_restarts;
    start.policy.resize =
        job.has_checkpoints ? rendezvous::ResizeWhen::checkpoint : rendezvous::ResizeWhen::now;
    start.policy.standing = true;
    start.secret = {.run_id = job.id, .token = job.token};
    return start;
}

}  // namespace ty::agent
