// SPDX-License-Identifier: Apache-2.0
// Signed calls of the daemon's AWS API, as any other client would make them.
#pragma once

#include "base/json.h"
#include "cli/home.h"

#include <string>

namespace ty::cli {

class ApiClient {
public:
    explicit ApiClient(DaemonInfo daemon);
    ~ApiClient();
    /// One AWS JSON call, e.g. ("SageMaker.DescribeTrainingJob", {...}). Throws ty::Error carrying
    /// the service's code as reason; unavailable when the daemon does not answer.
    Json call(const std::string& target, const Json& input);
    /// One of Trainyard's own calls, e.g. ("POST", "jobs/x/scale", {…}); `path` is encoded. Throws
    /// as call().
    Json control(const std::string& method, const std::string& path, const Json& input);
    const DaemonInfo& daemon() const { return daemon_; }

private:
    Json send(http::ClientRequest request, const std::string& service, Deadline by);

    DaemonInfo daemon_;
    http::Url url_;
    std::unique_ptr<http::Client> client_;
    SystemClock clock_;
};

/// "jobs/<name>" with the name encoded, and what follows: for control().
std::string job_path(const std::string& name, const std::string& rest = "");

/// Connect to the daemon of the invocation's home.
ApiClient connect(const Invocation& invocation);

}  // namespace ty::cli
