// SPDX-License-Identifier: Apache-2.0
// What all jobs since the daemon's start did with their instances' time, for /metrics: sums that
// are kept as jobs change, so that a scrape does not look at jobs that are over.
#pragma once

#include "api/prices.h"
#include "base/sync.h"

#include <string>
#include <unordered_map>

namespace ty::api {

class LedgerMeter {
public:
    struct Sums {
        jobs::Ledger time;  ///< settled classes; never shrink
        Costs money;        ///< of jobs whose types have prices
        double open = 0;    ///< instance-seconds of running jobs that are in no class yet
        std::string currency;
        bool has_prices = false;
    };

    explicit LedgerMeter(const Settings& settings);
    /// After a change of the job; older versions are ignored. Any thread.
    void put(const jobs::Job& job);
    Sums sums(Instant now) const;

private:
    struct Known {
        std::int64_t version = 0;
        jobs::LedgerState ledger;
        bool over = false;
    };
    struct State {
        Sums sums;
        std::unordered_map<std::string, Known> jobs;  // by id, until released
    };
    Settings prices_;  // those and the currency; immutable
    Sync<State> state_;
};

}  // namespace ty::api
