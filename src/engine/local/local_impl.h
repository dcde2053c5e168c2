// SPDX-License-Identifier: Apache-2.0
// The local engine's inside: what it knows of each agent, and its two halves, starting
// (local.cc) and ending (local_ending.cc). One thread watches pidfds; everything known is in one
// map.
//
// An agent is started at most once per attempt and host: once a pid was recorded the folder says
// "started", whatever became of it, and only release() ends that. The network process of an attempt
// with several hosts is one more of them, under the name kNetworkHost.
#pragma once

#include "base/sync.h"
#include "engine/local/local.h"
#include "engine/local/run_folder.h"
#include "engine/local/trash.h"
#include "sys/sys.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ty::engine {

namespace fs = std::filesystem;

using Key = std::pair<std::string, std::string>;  // attempt, host

struct Agent {
    RunFolder folder;
    ProcessId process;
    std::optional<sys::Child> child;  // ours
    sys::Fd adopted;                  // pidfd of one we did not start
    bool running = true;
    bool launching = false;  // launch() is at work; the watcher leaves it alone
    bool releasing = false;
    bool seen_alive = false;  // we watched it: nobody else can have its session id
    std::string ending;
    std::vector<int> gpus;  // ours while we run

    int pidfd() const { return child ? child->pidfd() : adopted.get(); }
};

struct State {
    std::map<Key, Agent> agents;
    std::function<void(const Allocation&)> on_gone;
};

Allocation allocation_of(const Key& key, const Agent& agent);

class LocalEngine final : public Engine {
public:
    explicit LocalEngine(LocalOptions options);
    ~LocalEngine() override;

    std::string name() const override { return "local"; }

    Capacity capacity() const override;
    void launch(const Placement& placement) override;

    std::vector<Allocation> list() override;
    void release(const AttemptId& attempt) override;
    void release(const AttemptId& attempt, const std::string& host) override;
    void kill(const AttemptId& attempt, const std::string& host) override;

    void on_gone(std::function<void(const Allocation&)> fn) override;

private:
    void adopt_all();
    Agent adopt(const fs::path& path) const;
    struct Fresh {
        AgentStart start;
        std::vector<int> gpus;
    };
    std::vector<Fresh> enter_fresh(const Placement& placement);
    void launch_network(const Placement& placement);
    void launch_one(const AttemptId& attempt, const Fresh& fresh, const fs::path& network);
    void bring_up(const Key& key, Agent agent, const char* verb,
                  const std::function<void(const RunFolder&)>& write_orders);
    void forget(const Key& key);
    void start_process(Agent& agent, const char* verb, sys::Fd lock) const;
    void end_and_forget(const AttemptId& attempt, const std::function<bool(const Key&)>& which,
                        const fs::path& folder);

    void watch(const std::stop_token& stop);
    void register_new(sys::Poller& poller, std::map<int, Key>& watched);
    void gone(const Key& key);
    fs::path folder_of(const AttemptId& attempt) const { return runs_ / attempt.str(); }

    const fs::path agent_;
    const fs::path runs_;
    const std::optional<int> gpus_;
    Trash trash_;
    sys::WakeFd wake_;
    Sync<State> state_;
    TaskGroup tasks_;
};

}  // namespace ty::engine
