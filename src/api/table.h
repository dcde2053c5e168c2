// SPDX-License-Identifier: Apache-2.0
// A small service as a table: one row per operation with its handler and what the compatibility
// page says about it. STS, IAM and EC2 speak XML over forms, ECR speaks JSON.
#pragma once

#include "api/api.h"
#include "api/coverage.h"
#include "api/form.h"
#include "api/render.h"

#include <span>
#include <string_view>
#include <vector>

namespace ty::api {

struct QueryRow {
    std::string_view name;
    http::Response (*handle)(Call& call, const Form& form);
    std::string_view state, note;  ///< see OperationCoverage
};
struct JsonRow {
    std::string_view name;
    std::string (*handle)(Call& call);  ///< gives the answer's document
    std::string_view state, note;
};

/// Finds the row and runs it; every failure is rendered in the service's form.
http::Response serve_query_table(Call& call, std::string_view service, Protocol protocol,
                                 std::span<const QueryRow> rows);
http::Response serve_json_table(Call& call, std::string_view service,
                                std::span<const JsonRow> rows);

template <typename Row>
std::vector<OperationCoverage> coverage_of(std::string_view service, std::span<const Row> rows) {
    std::vector<OperationCoverage> out;
    for (const Row& row : rows)
        out.push_back({std::string(service), std::string(row.name), std::string(row.state),
                       std::string(row.note)});
    return out;
}

}  // namespace ty::api
