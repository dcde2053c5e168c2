// SPDX-License-Identifier: Apache-2.0
// --events: what the launcher did, as JSON lines for machines; and the counters behind /metrics.
#pragma once

#include "base/time.h"
#include "rendezvous/rendezvous.h"
#include "sys/sys.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ty::agent {

/// One line: {"time": ISO, "event": what, "run_id": …, "node": …, fields…}. Written whole with one
/// write(2) to a file opened for appending; a full disk loses events, never the job. A field called
/// as one of the first four ("node") is written as "about_node". Used by one thread.
class EventLog {
public:
    /// `target`: a file in an existing folder, "-" for stderr, empty for nowhere. Throws not_found,
    /// denied.
    EventLog(const std::string& target, std::string run_id, std::string node, const Clock& clock);
    void write(const std::string& what,
               const std::vector<std::pair<std::string, std::string>>& fields);

private:
    sys::Fd file_;
    int fd_ = -1;
    bool cut_short_ = false;
    std::string run_id_, node_;
    const Clock& clock_;
};

/// What /healthz and /metrics show; written by the launcher's thread, read by the server's.
struct HealthState {
    std::string phase = "starting";  ///< starting, gathering, running, draining, stopping, over
    std::int64_t generation = 0;
    int workers_alive = 0, workers_wanted = 0;
    int group_rank = -1, group_world_size = 0, world_size = 0;
    long long warm_starts = 0, cold_starts = 0;
    std::map<std::string, long long> restarts_by_cause;
    double last_recovery_seconds = -1;  ///< from the failure to the new workers' start
    bool fenced = false;
};

/// GET /healthz: 200 {"status":"ok",…} while workers run or wait, 503 when fenced or over. GET
/// /metrics: Prometheus text. POST /drain[?grace=30]: an announced departure. Own threads.
class HealthServer {
public:
    /// "host:port", ":port" or "port" (loopback). Throws invalid, conflict. `on_drain` is called
    /// from a server thread. /drain is open to this machine; from elsewhere it takes `token` (the
    /// job's, TRAINYARD_RDZV_TOKEN) as a bearer, and without a token it is refused.
    HealthServer(const std::string& address,
                 std::function<void(std::optional<milliseconds>)> on_drain, std::string token = "");
    ~HealthServer();
    std::uint16_t port() const;
    void update(const HealthState& state);  ///< any thread

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ty::agent
