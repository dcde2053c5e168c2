// SPDX-License-Identifier: Apache-2.0
// From a job's ledger to money, at the prices of the configuration.
#pragma once

#include "api/api.h"

#include <optional>

namespace ty::api {

/// Mean price of the job's instances, where its groups differ; nullopt unless every type of them
/// has one.
std::optional<Price> price_of(const jobs::JobSpec& spec, const Settings& settings);

/// What a second of the job costs in parts of the on-demand price: for jobs::billable_seconds(). 1
/// for a job that is not spot, and where there is no price.
double paid_ratio(const jobs::JobSpec& spec, const Settings& settings);

struct Costs {
    double spent = 0;      ///< for all instance-time: at the spot price where the job is spot
    double on_demand = 0;  ///< what the useful training alone would have cost without spot
    double lost = 0;       ///< part of `spent` for training that had to be done again
    Costs& operator+=(const Costs& other);
};
Costs costs_of(const jobs::Ledger& ledger, const Price& price, bool spot);

}  // namespace ty::api
