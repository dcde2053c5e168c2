// SPDX-License-Identifier: Apache-2.0
#include "jobs/ledger.h"

#include <algorithm>
#include <cmath>

namespace ty::jobs {

void keep_ledger(Job&, const Stimulus&, Instant) {}

Ledger ledger_of(const LedgerState& state, Instant) {
    return state.sums;
}

Ledger ledger_of(const Job& job, Instant now) {
    return ledger_of(job.ledger, now);
}

Ledger& Ledger::operator+=(const Ledger& other) {
    useful += other.useful;
    lost += other.lost;
    restart += other.restart;
    idle += other.idle;
    checkpoint += other.checkpoint;
    waiting += other.waiting;
    unsettled += other.unsettled;
    interruptions += other.interruptions;
    restarts += other.restarts;
    return *this;
}

std::int64_t billable_seconds(const Job& job, double ratio) {
    const auto trained = job.training_seconds();
    if (!trained) return 0;
    const double part = std::clamp(ratio, 0.0, 1.0) * static_cast<double>(*trained);
    return std::max<std::int64_t>(1, std::llround(part));
}

}  // namespace ty::jobs
