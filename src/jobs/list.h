// SPDX-License-Identifier: Apache-2.0
// ListTrainingJobs over any number of jobs: one index walk per page, resumed by a sealed token.
#pragma once

#include "jobs/jobs.h"
#include "store/store.h"

#include <string>

namespace ty::jobs {

/// `secret` seals the tokens. Throws invalid ("ValidationException") for a token that was not made
/// here or for another order.
Page list_page(store::Tx& tx, const ListQuery& query, const std::string& secret);

/// The SQL a query runs as; for the plan test.
std::string_view list_sql(const ListQuery& query);

}  // namespace ty::jobs
