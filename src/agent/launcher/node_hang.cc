// SPDX-License-Identifier: Apache-2.0
// A generation in which a rank makes no progress: seen, described, ended.
#include "agent/launcher/node_agent.h"
#include "base/error.h"
#include "base/format.h"
#include "base/result.h"

#include <algorithm>
#include <csignal>

namespace ty::agent {

namespace {

using namespace rendezvous;

/// A debugger takes its time with a large process.
constexpr milliseconds kTimeToDescribe{3000};

}  // namespace

void NodeAgent::watch_progress() {
    const milliseconds interval =
        std::clamp(options_.hang_timeout / 10, milliseconds(50), milliseconds(1000));
    poller_.set_timer("progress", Deadline::in(interval), [this] {
        if (!assignment_ || stopping_) return;
        for (const auto& [local_rank, pid] : workers_->pids()) {
            Activity activity = read_activity(pid);
            activity.output = logs_.bytes_written(local_rank);
            progress_.observe(local_rank, activity, clock_.monotonic());
        }
        const std::vector<int> stuck = progress_.stuck(clock_.monotonic());
        if (stuck.empty()) {
            watch_progress();
        } else {
            on_hang(stuck);
        }
    });
}

/// What hangs is described on a thread of its own: a debugger must not keep beats unanswered.
void NodeAgent::on_hang(const std::vector<int>& stuck) {
    hang_ = Hang{.generation = assignment_->generation, .failure = {}, .processes = {}};
    Failure& failure = hang_.failure;
    failure.kind = FailureKind::hang;
    failure.host = facts_.host;
    for (const auto& [local_rank, pid] : workers_->pids()) {
        if (std::ranges::find(stuck, local_rank) == stuck.end()) continue;
        const sys::fs::path file = logs_.error_file(local_rank).parent_path() / "hang.txt";
        hang_.processes.emplace_back(pid, file);
        if (failure.rank < 0 || local_rank == stuck.front()) {
            failure.rank = assignment_->first_rank + local_rank;
            failure.local_rank = local_rank;
            failure.pid = pid;
            failure.message =
                format("no processor time, I/O or output for {} s; stacks in {}",
                       std::chrono::duration<double>(options_.hang_timeout).count(), file.string());
        }
    }
    describer_ = std::jthread([this, processes = hang_.processes] {
        const Deadline by = Deadline::in(kTimeToDescribe);
        for (const auto& [pid, file] : processes) {
            capture(
                [&pid = pid, &file = file, by] { sys::write_file(file, describe_stuck(pid, by)); });
        }
        described_.notify();
    });
}

void NodeAgent::on_described() {
    described_.drain();
    if (!assignment_ || assignment_->generation != hang_.generation || stopping_) return;
    for (const auto& [local_rank, pid] : workers_->pids()) {
        const auto is_this = [pid = pid](const auto& process) { return process.first == pid; };
        if (std::ranges::none_of(hang_.processes, is_this)) continue;
        // faulthandler (switched on in the environment) prints every thread's Python stack.
        ::kill(pid, SIGABRT);
        ::kill(pid, SIGCONT);
    }
    const Failure& failure = hang_.failure;
    note("hang", {{"rank", std::to_string(failure.rank)}, {"why", failure.message}});
    reported_ = true;
    broken_at_ = clock_.monotonic();
    ended_by_ = Cause::hang;
    link_->send(up::Failed{assignment_->generation, Cause::hang, failure});
    stop_workers({.signal = SIGABRT, .grace = milliseconds(500)});
}

}  // namespace ty::agent
