// SPDX-License-Identifier: Apache-2.0
// Agents as processes. One thread watches their pidfds; everything known is in one map.
//
// An agent is started at most once per attempt and host: once a pid was recorded the folder says
// "started", whatever became of it, and only release() ends that.
#include "engine/local/local.h"

#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/sync.h"
#include "engine/local/run_folder.h"
#include "engine/local/trash.h"
#include "sys/sys.h"

#include <csignal>
#include <cstdlib>
#include <map>

#include <sys/syscall.h>
#include <unistd.h>

namespace ty::engine {

namespace fs = std::filesystem;

namespace {

constexpr int kLockNumber = 3;             // descriptor of engine.lock in the agent
constexpr seconds kKillLimit{10};          // SIGKILL to gone; beyond: stuck in the kernel
constexpr milliseconds kPidLookEvery{10};  // adopted agents that have not written their pid yet

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

    int pidfd() const { return child ? child->pidfd() : adopted.get(); }
};

struct State {
    std::map<Key, Agent> agents;
    std::function<void(const Allocation&)> on_gone;
};

Allocation allocation_of(const Key& key, const Agent& agent) {
    return {AttemptId(key.first), key.second,
            agent.running ? AgentState::running : AgentState::gone, agent.ending};
}

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

class LocalEngine final : public Engine {
public:
    explicit LocalEngine(LocalOptions options)
        : agent_(std::move(options.agent)),
          runs_(options.state / "runs"),
          trash_(options.state / "runs.trash") {
        std::error_code failed;
        fs::create_directories(runs_, failed);
        if (failed) throw errno_error(failed.value(), "create folder " + runs_.string());
        adopt_all();
        tasks_.start("engine", [this](std::stop_token stop) { watch(stop); });
    }

    ~LocalEngine() override {
        tasks_.stop_and_join();
        state_.with([](State& state) {
            for (auto& [key, agent] : state.agents)
                if (agent.child) agent.child->detach();
        });
    }

    std::string name() const override { return "local"; }

    Capacity capacity() const override {
        const sys::HostFacts host = sys::read_host();
        return {host.cpus, host.gpus};
    }

    void launch(const Placement& placement) override {
        for (const AgentStart& start : placement.agents)
            in_context(
                fmt::format("starting the agent of {} on {}", placement.attempt.str(), start.host),
                [&] { launch_one(placement.attempt, start); });
    }

    std::vector<Allocation> list() override {
        return state_.with([](const State& state) {
            std::vector<Allocation> all;
            all.reserve(state.agents.size());
            for (const auto& [key, agent] : state.agents) all.push_back(allocation_of(key, agent));
            return all;
        });
    }

    void release(const AttemptId& attempt) override;
    void release(const AttemptId& attempt, const std::string& host) override;
    void kill(const AttemptId& attempt, const std::string& host) override;

    void on_gone(std::function<void(const Allocation&)> fn) override {
        state_.with([&](State& state) { state.on_gone = std::move(fn); });
    }

private:
    void adopt_all();
    Agent adopt(const fs::path& path) const;
    void launch_one(const AttemptId& attempt, const AgentStart& start);
    void start_process(Agent& agent, sys::Fd lock) const;

    void watch(const std::stop_token& stop);
    void register_new(sys::Poller& poller, std::map<int, Key>& watched);
    void gone(const Key& key);
    fs::path folder_of(const AttemptId& attempt) const { return runs_ / attempt.str(); }

    const fs::path agent_;
    const fs::path runs_;
    Trash trash_;
    sys::WakeFd wake_;
    Sync<State> state_;
    TaskGroup tasks_;
};

// ---- starting
// ------------------------------------------------------------------------------------

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

void LocalEngine::launch_one(const AttemptId& attempt, const AgentStart& start) {
    const Key key{attempt.str(), start.host};
    RunFolder folder(folder_of(attempt) / start.host);
    const bool known = state_.with([&](State& state) {
        // Entered before the work: a second launch of the same agent returns here.
        return !state.agents.emplace(key, Agent{.folder = folder, .launching = true}).second;
    });
    if (known) return;
    try {
        folder.create();
        sys::Fd lock = folder.lock();
        Agent agent{.folder = folder};
        if (!lock.is_open() || folder.read_pid()) {
            agent = adopt(folder.path());
        } else {
            folder.write_start(attempt, start);
            start_process(agent, std::move(lock));
        }
        state_.with([&](State& state) {
            const auto found = state.agents.find(key);
            if (found != state.agents.end()) found->second = std::move(agent);
        });
        wake_.notify();
    } catch (...) {
        state_.with([&](State& state) { state.agents.erase(key); });
        state_.notify();
        throw;
    }
}

void LocalEngine::start_process(Agent& agent, sys::Fd lock) const {
    const sys::Fd log = agent.folder.open_log();
    sys::Command command;
    command.argv = {agent_.string(), "run", agent.folder.path().string()};
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

// ---- watching
// ------------------------------------------------------------------------------------

void LocalEngine::watch(const std::stop_token& stop) {
    sys::Poller poller;
    std::map<int, Key> watched;  // pidfds in the poller
    poller.add(wake_.fd(), [this] { wake_.drain(); });
    do {
        register_new(poller, watched);
    } while (poller.run_once(Deadline::in(seconds(60)), stop));
}

void LocalEngine::register_new(sys::Poller& poller, std::map<int, Key>& watched) {
    std::vector<std::pair<int, Key>> fresh;
    std::vector<Key> ended;
    bool look_again = false;
    state_.with([&](State& state) {
        for (auto& [key, agent] : state.agents) {
            if (!agent.running || agent.launching) continue;
            if (agent.pidfd() < 0 && agent.process.pid == 0 && !agent.child) {
                if (const auto process = agent.folder.read_pid()) {
                    agent.process = *process;
                    agent.adopted = watch_process(*process);
                    agent.seen_alive = agent.adopted.is_open();
                    if (!agent.seen_alive) ended.push_back(key);
                } else if (!agent.folder.is_locked()) {
                    ended.push_back(key);
                } else {
                    look_again = true;
                }
            }
            if (agent.pidfd() >= 0 && !watched.contains(agent.pidfd()))
                fresh.emplace_back(agent.pidfd(), key);
        }
    });
    for (const Key& key : ended) gone(key);
    for (const auto& [fd, key] : fresh) {
        watched.emplace(fd, key);
        poller.add(fd, [this, &poller, &watched, fd = fd] {
            const Key which = watched.at(fd);
            watched.erase(fd);
            poller.remove(fd);  // before gone() closes it
            gone(which);
        });
    }
    if (look_again) poller.set_timer("pid", Deadline::in(kPidLookEvery), [] {});
}

/// The process has ended: note how, close its descriptor, tell.
void LocalEngine::gone(const Key& key) {
    std::function<void(const Allocation&)> tell;
    Allocation allocation;
    state_.with([&](State& state) {
        const auto found = state.agents.find(key);
        if (found == state.agents.end()) return;
        Agent& agent = found->second;
        if (agent.child) {
            if (const auto exit = agent.child->try_wait()) agent.ending = sys::describe(*exit);
            agent.child.reset();
        }
        agent.adopted.close();
        agent.running = false;
        allocation = allocation_of(key, agent);
        if (!agent.releasing) tell = state.on_gone;
    });
    state_.notify();
    log::debug("agent ended",
               {{"attempt", key.first}, {"host", key.second}, {"ending", allocation.ending}});
    if (!tell) return;
    try {
        tell(allocation);
    } catch (const std::exception& error) {
        log::error("nobody took the end of an agent",
                   {{"attempt", key.first}, {"error", error.what()}});
    }
}

// ---- releasing
// -----------------------------------------------------------------------------------

void LocalEngine::release(const AttemptId& attempt) {
    const auto ours = [&attempt](const Key& key) { return key.first == attempt.str(); };
    std::vector<Leftovers> leftovers;
    state_.with([&](State& state) {
        for (auto& [key, agent] : state.agents) {
            if (!ours(key)) continue;
            agent.releasing = true;
            if (agent.running && agent.pidfd() >= 0)
                ::syscall(SYS_pidfd_send_signal, agent.pidfd(), SIGKILL, nullptr, 0);
        }
    });
    const auto all_gone = [&ours](const State& state) {
        for (const auto& [key, agent] : state.agents)
            if (ours(key) && agent.running && agent.pidfd() >= 0) return false;
        return true;
    };
    const bool ended = state_.wait(Deadline::in(kKillLimit), {}, all_gone, all_gone);
    if (!ended)
        throw_error(
            Code::timed_out, "AgentStuck",
            "the agent of {} does not end {} s after SIGKILL; a device or network file system "
            "it waits for is stuck",
            attempt.str(), kKillLimit.count());
    state_.with([&](State& state) {
        for (auto it = state.agents.begin(); it != state.agents.end();) {
            if (!ours(it->first)) {
                ++it;
                continue;
            }
            const Agent& agent = it->second;
            leftovers.push_back(
                {agent.seen_alive ? agent.process.pid : 0, agent.folder.path().string()});
            it = state.agents.erase(it);
        }
    });
    trash_.take(folder_of(attempt), std::move(leftovers));
}

void LocalEngine::kill(const AttemptId& attempt, const std::string& host) {
    state_.with([&](State& state) {
        const auto found = state.agents.find(Key{attempt.str(), host});
        if (found != state.agents.end() && found->second.running && found->second.pidfd() >= 0)
            ::syscall(SYS_pidfd_send_signal, found->second.pidfd(), SIGKILL, nullptr, 0);
    });
}

void LocalEngine::release(const AttemptId& attempt, const std::string& host) {
    kill(attempt, host);  // its folder goes with the attempt's
}

}  // namespace

std::unique_ptr<Engine> make_local(LocalOptions options) {
    return std::make_unique<LocalEngine>(std::move(options));
}

}  // namespace ty::engine
