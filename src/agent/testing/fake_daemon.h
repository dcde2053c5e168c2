// SPDX-License-Identifier: Apache-2.0
// A control plane and an S3 in memory, for tests of the agent: serves one plan to all nodes of an
// attempt, collects events and log lines, gives commands, can be away for a while. Where a node is
// not named, algo-1 is meant.
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
    void prepare(const sys::fs::path& folder, const std::string& node = "algo-1") const;

    plan::NodePlan plan;  ///< set before the agents start; `host` and `stream` are each one's own
    std::string token = "secret-token";
    std::string network;  ///< path in start.json
    std::vector<int> gpus;

    void put_object(const std::string& path, std::string content);  ///< "bucket/key"
    std::optional<std::string> object(const std::string& path) const;
    std::vector<std::string> object_names() const;
    int copies() const;  ///< server-side ones so far

    /// The next command of a node.
    void command(plan::Command command, const std::string& node = "algo-1");
    /// Answer everything with 503 until called with false.
    void be_away(bool away);
    /// Answer the calls for objects so, and no others.
    void hide_storage(bool away);
    /// The longest time between two calls of agents so far.
    milliseconds longest_silence() const;
    /// Refuse the token from now on.
    void forget();

    std::vector<plan::Event> events(const std::string& node = "algo-1") const;
    std::vector<std::string> lines(const std::string& node = "algo-1") const;
    /// Waits until a line contains the text.
    bool wait_for_line(const std::string& text, const std::string& node = "algo-1") const;
    bool has_line(const std::string& text, const std::string& node = "algo-1") const;
    /// Waits until an event holds such a payload.
    template <typename Payload>
    std::optional<Payload> wait_for(const std::string& node = "algo-1") const {
        const auto find = [&](const State& state) -> std::optional<Payload> {
            const auto at = state.nodes.find(node);
            if (at == state.nodes.end()) return std::nullopt;
            for (const plan::Event& event : at->second.events) {
                if (const auto* found = std::get_if<Payload>(&event.payload)) return *found;
            }
            return std::nullopt;
        };
        return state_.wait(
            kPatience, {}, [&](const State& state) { return find(state).has_value(); }, find);
    }
    std::optional<plan::Finished> finished(const std::string& node = "algo-1") const;
    /// Problems the protocol forbids: gaps, repeats, lines after the end.
    std::vector<std::string> complaints() const;

private:
    struct Node {
        std::vector<plan::Event> events;
        std::vector<std::string> lines;
        std::vector<plan::Command> commands;
    };
    struct State {
        std::map<std::string, std::string> objects;
        std::map<std::string, std::map<int, std::string>> uploads;
        std::map<std::string, Node> nodes;
        std::vector<std::string> complaints;
        bool away = false, storage_away = false, forgotten = false;
        std::optional<Monotonic> last_call;
        milliseconds longest_silence{0};
        int next_upload = 0, copies = 0;
    };
    http::Response serve(http::Request& request);
    http::Response serve_agent(http::Request& request, const std::string& what);
    http::Response sync(const std::string& node, const std::string& body,
                        const std::stop_token& stop);
    http::Response logs(const std::string& node, const std::string& query, const std::string& body);
    http::Response serve_s3(http::Request& request);
    plan::NodePlan plan_of(const std::string& node) const;
    std::string token_of(const std::string& node) const;

    const Deadline kPatience = Deadline::in(std::chrono::minutes(5));  ///< of a whole test
    mutable Sync<State> state_;
    std::unique_ptr<http::Server> server_;
};

}  // namespace ty::agent
