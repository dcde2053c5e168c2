// SPDX-License-Identifier: Apache-2.0
// Which checkpoint prefixes belong to jobs that are not over: two jobs in one prefix would restore
// each other's checkpoints. In memory, rebuilt from the live rows at start. Any thread.
#pragma once

#include "base/sync.h"
#include "jobs/jobs.h"

#include <map>

namespace ty::jobs {

class CheckpointClaims {
public:
    /// Throws invalid "ValidationException" naming the other job, unless that is the very job by
    /// name (a repeated request). Nothing for a job without checkpoints.
    void claim(const Job& job);
    /// Without the check: after a restart.
    void adopt(const Job& job);
    void release(const JobId& job);

private:
    struct Claim {
        std::string endpoint, uri;  ///< uri without trailing slash
        std::string region, name;
    };
    static Claim claim_of(const Job& job);
    Sync<std::map<std::string, Claim>> claims_;  // by job id
};

}  // namespace ty::jobs
