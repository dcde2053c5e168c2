// SPDX-License-Identifier: Apache-2.0
// Health and metrics, without authentication: nothing secret is in them and probes carry no keys.
#pragma once

#include "api/admin/ledger_meter.h"
#include "api/api.h"
#include "api/request_counts.h"

#include <string>

namespace ty::api {

/// What /metrics tells; narrow so that a test can fill it.
struct AdminFacts {
    jobs::JobService::Counters jobs;
    double uptime = 0;  ///< seconds
    Bytes resident;
    std::vector<RequestCounts::Row> requests;
    LedgerMeter::Sums ledger;
};
/// Prometheus text exposition, version 0.0.4.
std::string render_metrics(const AdminFacts& facts);

/// serve_admin with what the router knows beside the services.
http::Response answer_admin(Services& services, const http::Request& request,
                            const RequestCounts& counts, const LedgerMeter& meter,
                            Monotonic started);

}  // namespace ty::api
