// SPDX-License-Identifier: Apache-2.0
#include "jobs/ledger.h"

namespace ty::jobs {

void keep_ledger(const Job&, Job& after, const Stimulus&, Instant now) {
    after.ledger.at = now;
}

Ledger ledger_of(const Job& job, Instant) {
    return job.ledger.sums;
}

}  // namespace ty::jobs
