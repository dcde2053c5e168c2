// SPDX-License-Identifier: Apache-2.0
// How many requests were answered, by service and status, for /metrics. Bounded: services are the
// router's own names, statuses are three digits.
#pragma once

#include "base/sync.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::api {

class RequestCounts {
public:
    struct Row {
        std::string service;
        int status = 0;
        std::uint64_t requests = 0;
        double seconds = 0;  ///< time in handlers, streaming not included
    };
    /// Any thread.
    void add(std::string_view service, int status, std::chrono::nanoseconds took);
    std::vector<Row> rows() const;

private:
    struct Sum {
        std::uint64_t requests = 0;
        std::chrono::nanoseconds took{0};
    };
    using Key = std::pair<std::string, int>;
    struct Less {
        using is_transparent = void;
        template <typename A, typename B>
        bool operator()(const A& a, const B& b) const {
            const std::string_view left(a.first), right(b.first);
            return left != right ? left < right : a.second < b.second;
        }
    };
    using Sums = std::map<Key, Sum, Less>;
    Sync<Sums> sums_;
};

}  // namespace ty::api
