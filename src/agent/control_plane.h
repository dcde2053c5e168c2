// SPDX-License-Identifier: Apache-2.0
// How an agent reaches the daemon: one URL, one token, and patience. Used by the uplink, the log
// pump and the first fetch of the plan; one instance per thread.
#pragma once

#include "base/time.h"
#include "http/http.h"
#include "sys/fd.h"

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

class Partition;

/// start.json: all an agent is told; the rest it fetches.
struct Start {
    std::string host;
    std::string control_plane;
    std::string token;
    std::string network;    ///< socket of the attempt's network process; empty: the machine's
    std::vector<int> gpus;  ///< ours, by index
    Partition* partition = nullptr;  ///< while it lasts, calls are lost; set by the agent itself
};
/// Throws invalid naming the field.
Start read_start(const sys::fs::path& path);

class ControlPlane {
public:
    explicit ControlPlane(const Start& start);

    enum class Verdict { ok, gone };
    struct Reply {
        Verdict verdict = Verdict::ok;
        std::string body;
    };
    /// One call under /agent/v1/. gone: the token is no longer valid. Throws unavailable,
    /// timed_out, cancelled, invalid (the daemon refuses the message itself).
    Reply call(std::string_view method, std::string_view what, std::string_view body, Deadline by,
               const std::stop_token& stop);
    /// call() until it is answered: a daemon that restarts is waited for.
    Reply call_patiently(std::string_view method, std::string_view what, std::string_view body,
                         milliseconds patience, const std::stop_token& stop);

private:
    http::ClientResponse send(const http::ClientRequest& request, Deadline by,
                              const std::stop_token& stop);

    Partition* partition_;
    std::string prefix_;
    std::string authorization_;
    http::Client client_;
};

}  // namespace ty::agent
