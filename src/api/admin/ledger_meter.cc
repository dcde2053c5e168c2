// SPDX-License-Identifier: Apache-2.0
#include "api/admin/ledger_meter.h"

namespace ty::api {

namespace {

/// What came to the sums between two versions of a job.
jobs::Ledger difference(const jobs::Ledger& now, const jobs::Ledger& before) {
    jobs::Ledger d = now;
    d.useful -= before.useful;
    d.lost -= before.lost;
    d.restart -= before.restart;
    d.idle -= before.idle;
    d.checkpoint -= before.checkpoint;
    d.waiting -= before.waiting;
    d.unsettled -= before.unsettled;
    d.interruptions -= before.interruptions;
    d.restarts -= before.restarts;
    return d;
}

}  // namespace

LedgerMeter::LedgerMeter(const Settings& settings) {
    prices_.prices = settings.prices;
    state_.with([&](State& state) {
        state.sums.currency = settings.currency;
        state.sums.has_prices = !settings.prices.empty();
    });
}

void LedgerMeter::put(const jobs::Job& job) {
    const bool over = jobs::is_terminal(job.status);
    const bool gone = over && (job.attempts.empty() || job.attempts.back().released);
    const auto price = price_of(job.spec, prices_);
    state_.with([&](State& state) {
        const auto found = state.jobs.find(job.id.str());
        // One that was over when it was first heard of ended in an earlier life of the daemon.
        if (found == state.jobs.end() && over) return;
        Known& known = found != state.jobs.end() ? found->second : state.jobs[job.id.str()];
        if (job.version <= known.version) return;
        const jobs::Ledger more = difference(job.ledger.sums, known.ledger.sums);
        state.sums.time += more;
        if (price) state.sums.money += costs_of(more, *price, job.spec.spot);
        known = {.version = job.version, .ledger = job.ledger, .over = over};
        if (gone) state.jobs.erase(job.id.str());
    });
}

LedgerMeter::Sums LedgerMeter::sums(Instant now) const {
    return state_.with([&](const State& state) {
        Sums sums = state.sums;
        milliseconds open{0};
        for (const auto& [id, known] : state.jobs)
            if (!known.over)
                open += jobs::ledger_of(known.ledger, now).billed() - known.ledger.sums.billed();
        sums.open = std::chrono::duration<double>(open).count();
        return sums;
    });
}

}  // namespace ty::api
