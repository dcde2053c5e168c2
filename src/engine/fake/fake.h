// SPDX-License-Identifier: Apache-2.0
// An engine in memory for tests: remembers what was launched and released, loses agents on demand.
// The smallest complete Engine, and the template for a new one. Any thread.
#pragma once

#include "base/sync.h"
#include "engine/engine.h"

#include <map>

namespace ty::engine {

class FakeEngine final : public Engine {
public:
    explicit FakeEngine(Capacity capacity = {4, 0}) : capacity_(capacity) {}

    std::string name() const override { return "fake"; }
    Capacity capacity() const override { return capacity_; }
    void launch(const Placement& placement) override;
    std::vector<Allocation> list() override;
    void release(const AttemptId& attempt) override;
    void release(const AttemptId& attempt, const std::string& host) override;
    void kill(const AttemptId& attempt, const std::string& host) override;
    void on_gone(std::function<void(const Allocation&)> fn) override;

    /// The next launch throws unavailable with this text.
    void fail_next_launch(std::string text);
    /// The agent, or the attempt's network (kNetworkHost), ends now; `ending` as "SIGKILL (signal
    /// 9)".
    void lose(const AttemptId& attempt, const std::string& host, const std::string& ending);

    /// Placements in the order of their first launch.
    std::vector<Placement> launched() const;
    std::vector<AttemptId> released() const;
    std::vector<std::string> nodes_released() const;  ///< "<attempt>/<node>"
    /// Block until so many placements were launched or attempts released; false at the deadline.
    bool wait_launched(std::size_t count, Deadline by) const;
    bool wait_released(std::size_t count, Deadline by) const;

private:
    struct State {
        std::vector<Placement> launched;
        std::vector<AttemptId> released;
        std::vector<std::string> nodes_released;
        std::map<std::pair<std::string, std::string>, Allocation> agents;
        std::function<void(const Allocation&)> on_gone;
        std::string failure;
    };
    const Capacity capacity_;
    mutable Sync<State> state_;
};

}  // namespace ty::engine
