// SPDX-License-Identifier: Apache-2.0
// The life of a generation on one node; leaving it is in node_leaving.cc.
#include "agent/launcher/node_agent.h"

#include "agent/launcher/workers/guard.h"
#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "base/result.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using namespace rendezvous;

/// Standby interpreters would fight the workers' own start for the processors.
constexpr milliseconds kWarmUpDelay{1500};
constexpr milliseconds kDrainInterval{20};
constexpr auto kYoung = std::chrono::seconds(5);

std::string cgroup_name(const Assignment& assignment) {
    return format("g{}-{}", assignment.generation, assignment.group_rank);
}

/// The last 4 KiB of a file; empty when there is none.
std::string tail_of(const sys::fs::path& path) {
    constexpr std::int64_t kTail = 4096;
    if (path.empty()) return "";
    const sys::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return "";
    const std::int64_t size = ::lseek(file.get(), 0, SEEK_END);
    std::string text(static_cast<std::size_t>(kTail), '\0');
    const ssize_t got =
        ::pread(file.get(), text.data(), text.size(), std::max<std::int64_t>(0, size - kTail));
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

}  // namespace

std::vector<WorkerSpec> NodeAgent::specs(const Assignment& assignment) {
    std::vector<WorkerSpec> result;
    for (int local_rank = 0; local_rank < options_.workers; ++local_rank) {
        const WorkerPlace place{.local_rank = local_rank,
                                .error_file = logs_.error_file(local_rank).string(),
                                .request_file = request_file_.string()};
        result.push_back({.local_rank = local_rank,
                          .argv = worker_command(options_, local_rank),
                          .env = worker_environment(options_, base_, assignment, place),
                          .stdout_fd = logs_.stdout_fd(local_rank),
                          .stderr_fd = logs_.stderr_fd(local_rank),
                          .cpus = cpus_of(local_rank)});
    }
    return result;
}

std::vector<int> NodeAgent::cpus_of(int local_rank) const {
    return cpus_.empty() ? std::vector<int>() : cpus_[static_cast<std::size_t>(local_rank)];
}

void NodeAgent::start(const Assignment& assignment) {
    if (leaving_ || finish_ || killed_by_) return;  // the coordinator will learn in a moment
    if (health_.fenced) {
        // Sent before our lease ended, read after it: others may train by now.
        link_->send(up::Stopped{assignment.generation, ports_.hold()});
        return;
    }
    failures_.clear();
    stopping_ = succeeded_ = reported_ = reported_echo_ = false;
    settling_ = said_ended_ = false;
    ended_by_ = Cause::infrastructure;
    assignment_ = assignment;
    if (outside_) return prepare();
    launch();
}

void NodeAgent::launch() {
    const Assignment& assignment = *assignment_;
    logs_.begin(static_cast<int>(assignment.generation) - 1, assignment.first_rank, facts_.host);
    started_at_ = clock_.monotonic();
    if (assignment.group_rank == 0) {
        const int port = ports_.release();
        if (options_.agent_store) {
            store_ = std::make_unique<TcpStore>("", static_cast<std::uint16_t>(port));
        }
    }
    oom_kills_before_ = workers_->oom_kills();
    progress_.begin(started_at_);
    poller_.cancel_timer("warm");
    try {
        workers_->start(specs(assignment), pool_.get(), cgroup_name(assignment));
    } catch (const Error& error) {
        // Nothing runs: no program, no permission. The verdict that comes back says so.
        Failure failure;
        failure.kind = FailureKind::not_started;
        failure.host = facts_.host;
        failure.message = error.what();
        reported_ = true;
        note("worker_failed",
             {{"kind", std::string(to_string(failure.kind))}, {"why", sentence(failure)}});
        link_->send(up::Failed{assignment.generation, Cause::application, failure});
        workers_stopped();
        return;
    }
    ran_ = true;
    const int warm = workers_->warm_starts();
    health_.warm_starts += warm;
    health_.cold_starts += options_.workers - warm;
    if (broken_at_) {
        health_.last_recovery_seconds =
            std::chrono::duration<double>(clock_.monotonic() - *broken_at_).count();
        broken_at_.reset();
    }
    note("generation_started",
         {{"generation", std::to_string(assignment.generation)},
          {"group_rank", std::to_string(assignment.group_rank)},
          {"nodes", std::to_string(assignment.group_world_size)},
          {"world_size", std::to_string(assignment.world_size)},
          {"restart_count", std::to_string(assignment.restart_count)},
          {"master", format("{}:{}", assignment.master_address, assignment.master_port)},
          {"warm_starts", std::to_string(warm)}});
    if (outside_) {
        outside_->tell(format("running {} {}", assignment.generation, assignment.group_world_size));
    }
    update_health("running");
    if (can_restart()) schedule_warm_up(kWarmUpDelay);
    if (options_.hang_timeout.count() > 0) watch_progress();
    drain_logs();
}

void NodeAgent::on_worker_end(const WorkerEnd& end) {
    if (!assignment_) return;
    note("worker_ended", {{"local_rank", std::to_string(end.local_rank)},
                          {"pid", std::to_string(end.pid)},
                          {"how", sys::describe(end.exit)}});
    update_health(stopping_ ? "stopping" : "running");
    if (!end.exit.ok()) {
        WorkerFailure failure;
        failure.local_rank = end.local_rank;
        failure.rank = assignment_->first_rank + end.local_rank;
        failure.pid = end.pid;
        failure.exit = end.exit;
        failure.error_file_path = logs_.error_file(end.local_rank);
        failure.error_file = read_error_file(failure.error_file_path);
        failure.when = clock_.now();
        if (failure.error_file && failure.error_file->timestamp) {
            failure.when = from_epoch_seconds(static_cast<double>(*failure.error_file->timestamp));
        }
        failures_.push_back(failure);
        if (!stopping_ && !reported_) {
            report_failure(failure);
            stop_workers({.signal = SIGTERM, .grace = options_.abort_grace});
            return;
        }
        if (reported_echo_) report_late_failure(failure);
    }
    if (!workers_->empty()) return;
    if (stopping_) {
        workers_stopped();
    } else if (failures_.empty()) {
        report_success();
    }
}

Failure NodeAgent::typed(const WorkerFailure& failure) {
    Circumstances circumstances;
    circumstances.oom_kills_before = oom_kills_before_;
    circumstances.oom_kills_after = workers_->oom_kills();
    circumstances.young = clock_.monotonic() - started_at_ < kYoung;
    circumstances.port_is_taken = assignment_->group_rank == 0 && circumstances.young && !store_ &&
                                  failure.local_rank == 0 &&
                                  port_is_taken(assignment_->master_port);
    circumstances.stderr_tail = tail_of(logs_.stderr_path(failure.local_rank));
    circumstances.host = facts_.host;
    return classify(failure, circumstances);
}

void NodeAgent::report_failure(const WorkerFailure& failure) {
    reported_ = true;
    broken_at_ = clock_.monotonic();
    const Failure reported = typed(failure);
    reported_echo_ = reported.secondary;
    ended_by_ = Cause::application;
    note("worker_failed", {{"rank", std::to_string(reported.rank)},
                           {"kind", std::string(to_string(reported.kind))},
                           {"why", sentence(reported)}});
    link_->send(up::Failed{assignment_->generation, Cause::application, reported});
}

/// An interpreter closes its connections before it ends: the others' complaints may come first.
/// Only one that left words counts, since we are stopping the rest ourselves by now.
void NodeAgent::report_late_failure(const WorkerFailure& failure) {
    const Failure late = typed(failure);
    if (late.secondary || late.message.empty()) return;
    report_failure(failure);
}

void NodeAgent::report_success() {
    succeeded_ = reported_ = true;
    logs_.drain(true);
    poller_.cancel_timer("drain");
    poller_.cancel_timer("progress");
    workers_->kill_all();  // what the programs left behind
    note("workers_succeeded", {{"generation", std::to_string(assignment_->generation)}});
    link_->send(up::Succeeded{assignment_->generation});
}

void NodeAgent::abort(const down::Abort& order) {
    if (order.generation == health_.generation && order.generation > counted_generation_) {
        counted_generation_ = order.generation;
        ++health_.restarts_by_cause[std::string(to_string(order.cause))];
    }
    if (!assignment_ || order.generation != assignment_->generation) {
        link_->send(up::Stopped{order.generation, ports_.hold()});
        return;
    }
    if (!broken_at_) broken_at_ = clock_.monotonic();
    say_ended(to_string(order.cause));
    note("generation_aborted", {{"generation", std::to_string(order.generation)},
                                {"cause", std::string(to_string(order.cause))},
                                {"why", order.why}});
    if (!leaving_ && (order.cause != Cause::application || options_.max_restarts > 0)) {
        sys::write_all(
            2, format("trainyard run: generation {} ends: {}\n", order.generation, order.why));
    }
    if (settling_) return;  // answered when the agent outside has
    // It is being stopped by a signal with a grace of its own, as every node of the job perhaps.
    if (options_.elastic && killed_by_ && !workers_->empty()) return;
    if (leaving_ && leave_signal_ != 0 && leave_by_ && !stopping_) {
        // torchrun passes its signal on; programs that catch it may still save what they have.
        stop_workers({.signal = leave_signal_, .grace = leave_by_->left()});
    } else if (order.graceful) {
        stop_workers({.signal = SIGTERM, .grace = options_.abort_grace});
    } else {
        stop_workers({});
    }
}

void NodeAgent::stop_workers(Stop how) {
    const bool again = stopping_;
    stopping_ = true;
    if (checkpoints_) checkpoints_->cancel();
    poller_.cancel_timer("progress");
    update_health("stopping");
    if (how.signal == 0) {
        poller_.cancel_timer("grace");
        for (const pid_t pid : workers_->kill_all()) {
            note("process_stuck", {{"pid", std::to_string(pid)}});
            sys::write_all(
                2, format("trainyard run: process {} does not end after SIGKILL: it is in an "
                          "uninterruptible system call; this machine may need a restart\n",
                          pid));
        }
        for (const WorkerEnd& end : workers_->take_ended()) on_worker_end(end);
        if (workers_->empty()) workers_stopped();
        return;
    }
    if (again) return;  // a stop is under way; its grace counts
    workers_->signal(how.signal);
    poller_.set_timer("grace", Deadline::in(how.grace), [this] { stop_workers({}); });
    if (workers_->empty()) workers_stopped();
}

void NodeAgent::workers_stopped() {
    if (!assignment_ || settling_) return;
    poller_.cancel_timer("grace");
    poller_.cancel_timer("drain");
    workers_->kill_all();
    logs_.drain(true);
    store_.reset();
    if (checkpoints_) checkpoints_->cancel();
    if (ran_ && outside_ && outside_->is_open()) return settle();
    end_generation();
}

void NodeAgent::end_generation() {
    say_ended(to_string(ended_by_));
    preparing_ = ran_ = settling_ = false;
    const std::int64_t generation = assignment_->generation;
    assignment_.reset();
    update_health("gathering");
    if (finish_ || killed_by_) {
        conclude();
        return;
    }
    link_->send(up::Stopped{generation, ports_.hold()});
}

void NodeAgent::checkpoint_now(const down::CheckpointNow& order) {
    if (!assignment_ || order.generation != assignment_->generation || stopping_) return;
    if (preparing_) {
        // Of what the others have begun without us, nothing can be kept.
        link_->send(up::Checkpointed{order.generation, "this node has not started yet"});
        return;
    }
    ended_by_ = order.cause;  // the workers may be gone before anybody says so
    note("checkpoint_asked", {{"generation", std::to_string(order.generation)},
                              {"deadline_ms", std::to_string(order.deadline.count())},
                              {"why", order.why}});
    update_health("draining");
    const std::int64_t generation = order.generation;
    checkpoints_->ask(generation, order.deadline, order.why,
                      [this, generation](const std::string& what) {
                          if (!assignment_ || assignment_->generation != generation || stopping_)
                              return;
                          note("checkpoint_seen", {{"what", what}});
                          // Not one step after the checkpoint: nothing will be lost.
                          reported_ = true;
                          if (!broken_at_) broken_at_ = clock_.monotonic();
                          link_->send(up::Checkpointed{generation, what});
                          stop_workers({});
                      });
    const int asked = workers_->signal_catchers(options_.checkpoint_signal);
    if (asked == 0 && options_.checkpoint_dir.empty() && assignment_->group_rank == 0) {
        // Nobody here can answer, and no folder would show it: waiting would only cost time.
        checkpoints_->cancel();
        link_->send(up::Checkpointed{generation, "no checkpoint folder and no handler"});
    }
}

bool NodeAgent::can_restart() const {
    return options_.max_restarts > 0 || options_.max_nodes > 1;
}

void NodeAgent::schedule_warm_up(milliseconds delay) {
    if (pool_) poller_.set_timer("warm", Deadline::in(delay), [this] { warm_up(); });
}

void NodeAgent::warm_up() {
    Assignment expected;
    if (assignment_) {
        expected = *assignment_;
        ++expected.generation;
    }
    const Variables base = base_;
    std::vector<WarmRecipe> recipes;
    for (int local_rank = 0; local_rank < options_.workers; ++local_rank) {
        WarmRecipe recipe{
            .local_rank = local_rank,
            .argv = worker_command(options_, local_rank),
            .env = worker_environment(options_, base, expected, {.local_rank = local_rank}),
            .cpus = cpus_of(local_rank)};
        recipes.push_back(std::move(recipe));
    }
    warm_asked_ = true;
    pool_->prepare(recipes);
}

void NodeAgent::drain_logs() {
    if (!logs_.has_tee() || !assignment_) return;
    logs_.drain(false);
    poller_.set_timer("drain", Deadline::in(kDrainInterval), [this] { drain_logs(); });
}

void NodeAgent::note(const std::string& what,
                     const std::vector<std::pair<std::string, std::string>>& fields) {
    if (events_) events_->write(what, fields);
}

void NodeAgent::update_health(const char* phase) {
    health_.phase = phase;
    health_.workers_wanted = options_.workers;
    health_.workers_alive = workers_ ? static_cast<int>(workers_->alive()) : 0;
    if (assignment_) {
        health_.generation = assignment_->generation;
        health_.group_rank = assignment_->group_rank;
        health_.group_world_size = assignment_->group_world_size;
        health_.world_size = assignment_->world_size;
    }
    if (health_server_) health_server_->update(health_);
}

}  // namespace ty::agent
