// SPDX-License-Identifier: Apache-2.0
// Starting agents, and finding those of an earlier daemon.
#include "engine/local/local.h"

#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/local/gpus.h"
#include "engine/local/local_impl.h"

#include <cstdlib>

#include <unistd.h>

namespace ty::engine {

namespace {

constexpr int kLockNumber = 3;  // descriptor of engine.lock in the agent

std::vector<std::string> environment_for(const fs::path& folder) {
    std::vector<std::string> env;
    const std::string run = std::string(kRunVariable) + "=";
    const std::string lock = "TRAINYARD_LOCK_FD=";
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (!text.starts_with(run) && !text.starts_with(lock)) env.emplace_back(text);
    }
    env.push_back(run + folder.string());
    env.push_back(lock + std::to_string(kLockNumber));
    return env;
}

}  // namespace

LocalEngine::LocalEngine(LocalOptions options)
    : agent_(std::move(options.agent)),
      runs_(options.state / "runs"),
      gpus_(options.gpus),
      trash_(options.state / "runs.trash") {
    std::error_code failed;
    fs::create_directories(runs_, failed);
    if (failed) throw errno_error(failed.value(), "create folder " + runs_.string());
    adopt_all();
    tasks_.start("engine", [this](std::stop_token stop) { watch(stop); });
}

LocalEngine::~LocalEngine() {
    tasks_.stop_and_join();
    state_.with([](State& state) {
        for (auto& [key, agent] : state.agents)
            if (agent.child) agent.child->detach();
    });
}

Capacity LocalEngine::capacity() const {
    const sys::HostFacts host = sys::read_host();
    return {host.cpus, gpus_.value_or(host.gpus)};
}

std::vector<Allocation> LocalEngine::list() {
    return state_.with([](const State& state) {
        std::vector<Allocation> all;
        all.reserve(state.agents.size());
        for (const auto& [key, agent] : state.agents) all.push_back(allocation_of(key, agent));
        return all;
    });
}

void LocalEngine::adopt_all() {
    std::error_code failed;
    for (fs::directory_iterator it(runs_, failed), end; !failed && it != end;
         it.increment(failed)) {
        std::error_code inner;
        bool any = false;
        for (fs::directory_iterator host(it->path(), inner); !inner && host != end;
             host.increment(inner)) {
            const Key key{it->path().filename().string(), host->path().filename().string()};
            Agent agent = adopt(host->path());
            if (!agent.running && agent.process.pid == 0) {
                // The daemon died between making the folder and starting the agent: the lock, which
                // an agent holds from before its start, is free. Not an ended agent, but none yet.
                std::error_code ignored;
                fs::remove_all(host->path(), ignored);
                continue;
            }
            any = true;
            log::info(agent.running ? "adopted a running agent" : "found an ended agent",
                      {{"attempt", key.first}, {"host", key.second}, {"pid", agent.process.pid}});
            state_.with([&](State& state) { state.agents.emplace(key, std::move(agent)); });
        }
        if (!any) trash_.take(it->path(), {});
    }
    if (failed) throw errno_error(failed.value(), "read folder " + runs_.string());
}

/// What the folder of an earlier daemon tells.
Agent LocalEngine::adopt(const fs::path& path) const {
    Agent agent{.folder = RunFolder(path)};
    agent.gpus = agent.folder.read_gpus();
    const bool locked = agent.folder.is_locked();
    if (const auto process = agent.folder.read_pid()) {
        agent.process = *process;
        agent.adopted = watch_process(*process);
        agent.running = agent.seen_alive = agent.adopted.is_open();
    } else {
        agent.running = locked;  // the lock is inherited before the pid is written
    }
    return agent;
}

void LocalEngine::launch(const Placement& placement) {
    const std::vector<Fresh> fresh = enter_fresh(placement);
    const Key network{placement.attempt.str(), kNetworkHost};
    std::size_t started = 0;
    try {
        if (placement.network && !fresh.empty())
            in_context(fmt::format("starting the network of {}", network.first),
                       [&] { launch_network(placement); });
        const bool networked =
            state_.with([&](const State& state) { return state.agents.contains(network); });
        const fs::path socket =
            networked ? folder_of(placement.attempt) / kNetworkHost / "socket" : fs::path();
        for (; started < fresh.size(); ++started)
            in_context(fmt::format("starting the agent of {} on {}", network.first,
                                   fresh[started].start.host),
                       [&] { launch_one(placement.attempt, fresh[started], socket); });
    } catch (...) {
        for (; started < fresh.size(); ++started)
            forget({network.first, fresh[started].start.host});
        throw;
    }
}

/// Those of the placement that nobody knows yet, each with its GPUs. They are entered before the
/// work, all or none: a second launch of the same agent finds it there.
std::vector<LocalEngine::Fresh> LocalEngine::enter_fresh(const Placement& placement) {
    GpuWish wish{.each = placement.gpus};
    if (wish.each > 0) wish.total = gpus_ ? *gpus_ : sys::read_host().gpus;
    return state_.with([&](State& state) {
        std::vector<Fresh> fresh;
        for (const AgentStart& start : placement.agents)
            if (!state.agents.contains({placement.attempt.str(), start.host}))
                fresh.push_back({start, {}});
        for (const auto& [key, agent] : state.agents)
            if (agent.running)
                wish.taken.insert(wish.taken.end(), agent.gpus.begin(), agent.gpus.end());
        wish.agents = static_cast<int>(fresh.size());
        std::vector<std::vector<int>> gpus = give_gpus(wish);
        for (std::size_t i = 0; i < fresh.size(); ++i) {
            fresh[i].gpus = std::move(gpus[i]);
            const std::string& host = fresh[i].start.host;
            state.agents.emplace(Key{placement.attempt.str(), host},
                                 Agent{.folder = RunFolder(folder_of(placement.attempt) / host),
                                       .launching = true,
                                       .gpus = fresh[i].gpus});
        }
        return fresh;
    });
}

void LocalEngine::launch_network(const Placement& placement) {
    const Key key{placement.attempt.str(), kNetworkHost};
    const RunFolder folder(folder_of(placement.attempt) / kNetworkHost);
    const bool known = state_.with([&](State& state) {
        return !state.agents.emplace(key, Agent{.folder = folder, .launching = true}).second;
    });
    if (known) return;
    try {
        bring_up(key, Agent{.folder = folder}, "network", [&](const RunFolder& into) {
            into.write_network(*placement.network, placement.agents.front().control_plane);
        });
    } catch (...) {
        forget(key);
        throw;
    }
}

void LocalEngine::launch_one(const AttemptId& attempt, const Fresh& fresh,
                             const fs::path& network) {
    Agent agent{.folder = RunFolder(folder_of(attempt) / fresh.start.host), .gpus = fresh.gpus};
    bring_up({attempt.str(), fresh.start.host}, std::move(agent), "run",
             [&](const RunFolder& into) {
                 into.write_start(attempt, fresh.start, network, fresh.gpus);
             });
}

/// The folder, the process, and the entry in the map that was held free for it.
void LocalEngine::bring_up(const Key& key, Agent agent, const char* verb,
                           const std::function<void(const RunFolder&)>& write_orders) {
    agent.folder.create();
    sys::Fd lock = agent.folder.lock();
    if (!lock.is_open() || agent.folder.read_pid()) {
        agent = adopt(agent.folder.path());
    } else {
        write_orders(agent.folder);
        start_process(agent, verb, std::move(lock));
    }
    state_.with([&](State& state) {
        const auto found = state.agents.find(key);
        if (found != state.agents.end()) found->second = std::move(agent);
    });
    wake_.notify();
}

void LocalEngine::forget(const Key& key) {
    state_.with([&](State& state) { state.agents.erase(key); });
    state_.notify();
}

void LocalEngine::start_process(Agent& agent, const char* verb, sys::Fd lock) const {
    const sys::Fd log = agent.folder.open_log();
    sys::Command command;
    command.argv = {agent_.string(), verb, agent.folder.path().string()};
    command.env = environment_for(agent.folder.path());
    command.cwd = "/";
    command.stdout_fd = log.get();
    command.stderr_fd = log.get();
    command.keep = {{lock.get(), kLockNumber}};
    command.session = sys::Command::Session::own;
    agent.child.emplace(sys::Child::spawn(command));
    agent.process.pid = agent.child->pid();
    agent.seen_alive = true;
    sys::ProcessStat stat;
    if (sys::read_process(agent.process.pid, stat)) agent.process.start_ticks = stat.start_ticks;
    agent.folder.write_pid(agent.process);
}

std::unique_ptr<Engine> make_local(LocalOptions options) {
    return std::make_unique<LocalEngine>(std::move(options));
}

}  // namespace ty::engine
