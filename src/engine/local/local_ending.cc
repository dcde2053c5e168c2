// SPDX-License-Identifier: Apache-2.0
// Seeing agents end, and ending them.
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/local/local_impl.h"

#include <csignal>

#include <sys/syscall.h>
#include <unistd.h>

namespace ty::engine {

namespace {

constexpr seconds kKillLimit{10};          // SIGKILL to gone; beyond: stuck in the kernel
constexpr milliseconds kPidLookEvery{10};  // adopted agents that have not written their pid yet

}  // namespace

Allocation allocation_of(const Key& key, const Agent& agent) {
    return {AttemptId(key.first), key.second,
            agent.running ? AgentState::running : AgentState::gone, agent.ending};
}

void LocalEngine::on_gone(std::function<void(const Allocation&)> fn) {
    state_.with([&](State& state) { state.on_gone = std::move(fn); });
}

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

void LocalEngine::release(const AttemptId& attempt) {
    end_and_forget(
        attempt, [&](const Key& key) { return key.first == attempt.str(); }, folder_of(attempt));
}

void LocalEngine::release(const AttemptId& attempt, const std::string& host) {
    const Key wanted{attempt.str(), host};
    end_and_forget(
        attempt, [&](const Key& key) { return key == wanted; }, folder_of(attempt) / host);
}

void LocalEngine::end_and_forget(const AttemptId& attempt,
                                 const std::function<bool(const Key&)>& which,
                                 const fs::path& folder) {
    std::vector<Leftovers> leftovers;
    state_.with([&](State& state) {
        for (auto& [key, agent] : state.agents) {
            if (!which(key)) continue;
            agent.releasing = true;
            if (agent.running && agent.pidfd() >= 0)
                ::syscall(SYS_pidfd_send_signal, agent.pidfd(), SIGKILL, nullptr, 0);
        }
    });
    const auto all_gone = [&which](const State& state) {
        for (const auto& [key, agent] : state.agents)
            if (which(key) && agent.running && agent.pidfd() >= 0) return false;
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
            if (!which(it->first)) {
                ++it;
                continue;
            }
            const Agent& agent = it->second;
            leftovers.push_back(
                {agent.seen_alive ? agent.process.pid : 0, agent.folder.path().string()});
            it = state.agents.erase(it);
        }
    });
    trash_.take(folder, std::move(leftovers));
}

void LocalEngine::kill(const AttemptId& attempt, const std::string& host) {
    state_.with([&](State& state) {
        const auto found = state.agents.find(Key{attempt.str(), host});
        if (found != state.agents.end() && found->second.running && found->second.pidfd() >= 0)
            ::syscall(SYS_pidfd_send_signal, found->second.pidfd(), SIGKILL, nullptr, 0);
    });
}

}  // namespace ty::engine
