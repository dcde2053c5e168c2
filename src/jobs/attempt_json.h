// SPDX-License-Identifier: Apache-2.0
// Attempts and their nodes as part of a job's stored state.
#pragma once

#include "base/json.h"
#include "jobs/jobs.h"

namespace ty::jobs {

Json attempt_out(const Attempt& attempt);
/// `job`: everything but its attempts is read already; rows of an earlier version lean on it.
Attempt attempt_in(const Json& j, const Job& job);

}  // namespace ty::jobs
