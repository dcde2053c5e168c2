// SPDX-License-Identifier: Apache-2.0
// Trainyard's own calls, beside AWS's: disturb a job, scale it, its checkpoints, its ledger. Paths
// below /trainyard/v1/, JSON both ways, signed like AWS calls for "trainyard" or "sagemaker".
#pragma once

#include "api/api.h"
#include "api/prices.h"
#include "base/json.h"

#include <string>
#include <string_view>
#include <vector>

namespace ty::api::control {

inline constexpr std::string_view kRoot = "/trainyard/v1/";

/// One call, its path taken apart.
struct Asked {
    Call& call;
    std::string region;  ///< of ?region=, else the caller's
    std::string job;     ///< empty where the path names none
    std::string checkpoint;
    std::vector<std::pair<std::string, std::string>> query;  ///< without region
};

// One function per call; each gives the answer's document.
Json show_job(const Asked& asked);          // job.cc
Json interrupt(const Asked& asked);         // faults.cc
Json schedule_faults(const Asked& asked);   //
Json end_faults(const Asked& asked);        //
Json scale(const Asked& asked);             // scale.cc
Json list_checkpoints(const Asked& asked);  // checkpoints.cc
Json start_checkpoint(const Asked& asked);  // start.cc
Json show_ledger(const Asked& asked);       // ledger.cc
Json sum_ledgers(const Asked& asked);       //

/// Throws not_found.
jobs::Job require_job(const Asked& asked);

/// {"useful": seconds, …, "billed": seconds} and {"spent", …, "currency"}.
Json times_of(const jobs::Ledger& ledger);
Json money_of(const Costs& costs, const std::string& currency);
/// Part of the paid time that is in the result, or may still be; negative where nothing was paid.
double goodput_of(const jobs::Ledger& ledger);

}  // namespace ty::api::control
