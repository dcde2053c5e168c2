// SPDX-License-Identifier: Apache-2.0
// See request_counts.h.
#include "api/request_counts.h"

namespace ty::api {

void RequestCounts::add(std::string_view service, int status, std::chrono::nanoseconds took) {
    sums_.with([&](Sums& sums) {
        auto found = sums.find(std::pair(service, status));
        if (found == sums.end())
            found = sums.emplace(Key(std::string(service), status), Sum()).first;
        found->second.requests += 1;
        found->second.took += took;
    });
}

std::vector<RequestCounts::Row> RequestCounts::rows() const {
    return sums_.with([](const Sums& sums) {
        std::vector<Row> rows;
        for (const auto& [key, sum] : sums)
            rows.push_back({key.first, key.second, sum.requests,
                            std::chrono::duration<double>(sum.took).count()});
        return rows;
    });
}

}  // namespace ty::api
