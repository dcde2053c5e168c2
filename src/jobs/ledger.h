// SPDX-License-Identifier: Apache-2.0
// Keeping a job's ledger: every stretch of every instance's life belongs to one class, to the
// millisecond, by the times of the events. Pure; called by step() after every stimulus, inside the
// write transaction. Costs O(nodes of the attempt) and changes nothing when replayed.
#pragma once

#include "jobs/jobs.h"

#include <string>
#include <string_view>

namespace ty::jobs {

/// `job` is what the stimulus made of it. Closes what its nodes no longer do, opens what they do
/// now, then settles what the stimulus decides: a committed checkpoint makes training useful up to
/// its moment, a lost attempt or generation makes what followed it lost.
void keep_ledger(Job& job, const Stimulus& stimulus, Instant now);
/// The same; what the job was before is not needed.
inline void keep_ledger(const Job& /*before*/, Job& after, const Stimulus& stimulus, Instant now) {
    keep_ledger(after, stimulus, now);
}

/// The stored form. from_json throws corrupt.
std::string to_json(const LedgerState& state);
LedgerState ledger_from_json(std::string_view text);

}  // namespace ty::jobs
