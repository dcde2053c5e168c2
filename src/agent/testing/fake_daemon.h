// SPDX-License-Identifier: Apache-2.0
// A control plane and an S3 in memory, for tests of the agent: serves one plan, collects events and
// log lines, gives commands, can be away for a while.
#pragma once

#include "base/sync.h"
#include "http/http.h"
#include "plan/plan.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

class FakeDaemon {
public:
    FakeDaemon();
    ~FakeDaemon();

    std::string url() const;
    /// start.json in a fresh folder `folder`.
    void prepare(const sys::fs::path& folder) const;

    plan::NodePlan plan;  ///< set before the agent starts
    std::string token = "secret-token";

    void put_object(const std::string& path, std::string content);  ///< "bucket/key"
    std::optional<std::string> object(const std::string& path) const;
    std::vector<std::string> object_names() const;

    void command(plan::Stop stop);
    /// Answer everything with 503 until called with false.
    void be_away(bool away);
    /// Refuse the token from now on.
    void forget();

    std::vector<plan::Event> events() const;
    std::vector<std::string> lines() const;
    /// Waits until a line contains the text.
    bool wait_for_line(const std::string& text) const;
    bool has_line(const std::string& text) const;
    std::optional<plan::Finished> finished() const;
    /// Problems the protocol forbids: gaps, repeats, lines after the end.
    std::vector<std::string> complaints() const;

private:
    struct State {
        std::map<std::string, std::string> objects;
        std::map<std::string, std::map<int, std::string>> uploads;
        std::vector<plan::Event> events;
        std::vector<std::string> lines, complaints;
        std::optional<plan::Stop> command;
        bool away = false, forgotten = false;
        int next_upload = 0;
    };
    http::Response serve(http::Request& request);
    http::Response serve_agent(http::Request& request, const std::string& what);
    http::Response sync(const std::string& body, const std::stop_token& stop);
    http::Response logs(const std::string& query, const std::string& body);
    http::Response serve_s3(http::Request& request);

    mutable Sync<State> state_;
    std::unique_ptr<http::Server> server_;
};

}  // namespace ty::agent
