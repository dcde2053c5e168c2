// SPDX-License-Identifier: Apache-2.0
// Keeping a job's ledger: time is integrated between stimuli over what each node was doing. Pure;
// called by step() after every stimulus, inside the write transaction.
#pragma once

#include "jobs/jobs.h"

namespace ty::jobs {

/// `before` and `after`: the job around one stimulus. Adds the time since LedgerState::at to the
/// classes the nodes were in `before`, then settles what the stimulus decides: a committed
/// checkpoint makes training useful up to its moment, a lost node or attempt makes what followed
/// it lost.
void keep_ledger(const Job& before, Job& after, const Stimulus& stimulus, Instant now);

}  // namespace ty::jobs
