// SPDX-License-Identifier: Apache-2.0
#include "engine/fake/fake.h"

#include "base/error.h"

namespace ty::engine {

void FakeEngine::launch(const Placement& placement) {
    state_.with([&](State& state) {
        if (!state.failure.empty())
            throw Error(Code::unavailable, "", std::exchange(state.failure, {}));
        bool fresh = false;
        for (const AgentStart& start : placement.agents)
            fresh |=
                state.agents
                    .emplace(std::pair(placement.attempt.str(), start.host),
                             Allocation{placement.attempt, start.host, AgentState::running, {}})
                    .second;
        if (placement.network)
            state.agents.emplace(
                std::pair(placement.attempt.str(), std::string(kNetworkHost)),
                Allocation{placement.attempt, kNetworkHost, AgentState::running, {}});
        if (fresh) state.launched.push_back(placement);
    });
    state_.notify();
}

std::vector<Allocation> FakeEngine::list() {
    return state_.with([](const State& state) {
        std::vector<Allocation> all;
        for (const auto& [key, agent] : state.agents) all.push_back(agent);
        return all;
    });
}

void FakeEngine::release(const AttemptId& attempt) {
    state_.with([&](State& state) {
        std::erase_if(state.agents,
                      [&](const auto& entry) { return entry.first.first == attempt.str(); });
        state.released.push_back(attempt);
    });
    state_.notify();
}

void FakeEngine::release(const AttemptId& attempt, const std::string& host) {
    state_.with([&](State& state) {
        state.agents.erase(std::pair(attempt.str(), host));
        state.nodes_released.emplace_back(attempt.str() + "/" + host);
    });
    state_.notify();
}

void FakeEngine::kill(const AttemptId& attempt, const std::string& host) {
    const bool running = state_.with([&](const State& state) {
        const auto found = state.agents.find(std::pair(attempt.str(), host));
        return found != state.agents.end() && found->second.state == AgentState::running;
    });
    if (running) lose(attempt, host, "SIGKILL (signal 9)");
}

void FakeEngine::on_gone(std::function<void(const Allocation&)> fn) {
    state_.with([&](State& state) { state.on_gone = std::move(fn); });
}

void FakeEngine::fail_next_launch(std::string text) {
    state_.with([&](State& state) { state.failure = std::move(text); });
}

void FakeEngine::lose(const AttemptId& attempt, const std::string& host,
                      const std::string& ending) {
    std::function<void(const Allocation&)> tell;
    Allocation gone{attempt, host, AgentState::gone, ending};
    state_.with([&](State& state) {
        state.agents.insert_or_assign(std::pair(attempt.str(), host), gone);
        tell = state.on_gone;
    });
    if (tell) tell(gone);
}

std::vector<Placement> FakeEngine::launched() const {
    return state_.with([](const State& state) { return state.launched; });
}

std::vector<AttemptId> FakeEngine::released() const {
    return state_.with([](const State& state) { return state.released; });
}

std::vector<std::string> FakeEngine::nodes_released() const {
    return state_.with([](const State& state) { return state.nodes_released; });
}

bool FakeEngine::wait_launched(std::size_t count, Deadline by) const {
    const auto enough = [count](const State& state) { return state.launched.size() >= count; };
    return state_.wait(by, {}, enough, enough);
}

bool FakeEngine::wait_released(std::size_t count, Deadline by) const {
    const auto enough = [count](const State& state) { return state.released.size() >= count; };
    return state_.wait(by, {}, enough, enough);
}

}  // namespace ty::engine
