// SPDX-License-Identifier: Apache-2.0
// One node of a job: does what the coordinator says, and tells it what happens to the workers.
//
// Start: spawn a generation's workers. A worker fails: report, stop the rest. Abort: stop, answer
// Stopped. CheckpointNow: ask the programs, report evidence. Finish: leave. Everything happens on
// one thread in the poller; nothing here decides who trains with whom (rendezvous/).
#pragma once

#include "agent/launcher/environment.h"
#include "agent/launcher/link/link.h"
#include "agent/launcher/logs/failure.h"
#include "agent/launcher/logs/logs.h"
#include "agent/launcher/notice/checkpoint_watch.h"
#include "agent/launcher/notice/notices.h"
#include "agent/launcher/options/options.h"
#include "agent/launcher/outside/node_socket.h"
#include "agent/launcher/status/events.h"
#include "agent/launcher/store/tcp_store.h"
#include "agent/launcher/workers/port_lease.h"
#include "agent/launcher/workers/progress.h"
#include "agent/launcher/workers/workers.h"
#include "base/sync.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ty::agent {

class NodeAgent {
public:
    NodeAgent(LaunchOptions options, const Clock& clock);
    ~NodeAgent();
    /// Runs the job on this node to its end; returns the exit code.
    int run();

private:
    /// How the workers of a generation are brought to an end.
    struct Stop {
        int signal = 0;         ///< 0: SIGKILL at once
        milliseconds grace{0};  ///< for those that catch the signal
    };

    void open_link();
    rendezvous::up::Hello hello();
    void on_down(const rendezvous::Down& message);
    void on_fenced(const std::string& why);
    void on_gone(Gone how, const std::string& why);

    void start(const rendezvous::Assignment& assignment);
    void launch();
    std::vector<WorkerSpec> specs(const rendezvous::Assignment& assignment);
    std::vector<int> cpus_of(int local_rank) const;
    void on_worker_end(const WorkerEnd& end);
    rendezvous::Failure typed(const WorkerFailure& failure);
    void report_failure(const WorkerFailure& failure);
    void report_late_failure(const WorkerFailure& failure);
    void report_success();
    void abort(const rendezvous::down::Abort& order);
    void checkpoint_now(const rendezvous::down::CheckpointNow& order);
    void stop_workers(Stop how);
    void workers_stopped();
    void end_generation();
    void finish(const rendezvous::down::Finish& order);
    void conclude();
    int exit_code_for(const rendezvous::down::Finish& order) const;

    void on_signal(int number);
    bool is_repeated(int number);
    void leave(std::optional<milliseconds> deadline, const std::string& why, int signal);
    void stop_by_signal(int number);
    void on_guard_died();

    // ---- node_hang.cc
    void watch_progress();
    void on_hang(const std::vector<int>& stuck);
    void on_described();

    // ---- node_outside.cc
    void open_node_socket();
    void prepare();
    void on_prepared(const std::optional<std::string>& failure);
    void settle();
    void say_ended(std::string_view cause);
    void on_agent_gone(const std::string& why);

    void schedule_warm_up(milliseconds delay);
    void warm_up();
    void drain_logs();
    void note(const std::string& what,
              const std::vector<std::pair<std::string, std::string>>& fields);
    void update_health(const char* phase);
    bool can_restart() const;

    const LaunchOptions options_;
    const Clock& clock_;
    Variables base_;
    sys::Poller poller_;
    sys::SignalFd signals_;
    rendezvous::NodeFacts facts_;
    const std::vector<std::vector<int>> cpus_;  ///< --numa-binding, by local rank; empty: any
    std::unique_ptr<EventLog> events_;
    std::unique_ptr<HealthServer> health_server_;
    HealthState health_;
    LaunchLogs logs_;
    sys::TempDir scratch_{"trainyard-run"};  ///< the checkpoint request appears here
    const sys::fs::path request_file_ = scratch_.path() / "checkpoint_request.json";
    PortLease ports_;
    ProgressWatch progress_;
    std::unique_ptr<WarmPool> pool_;
    std::unique_ptr<WorkerGroup> workers_;
    std::unique_ptr<CheckpointWatch> checkpoints_;
    std::unique_ptr<TcpStore> store_;
    std::unique_ptr<NoticeSources> notices_;
    std::unique_ptr<Link> link_;
    std::unique_ptr<NodeSocket> outside_;  ///< absent: no agent has started us
    sys::WakeFd drain_wake_;
    Sync<std::optional<Notice>> drain_asked_;  ///< by POST /drain, from a server's thread

    // The generation that runs here.
    std::optional<rendezvous::Assignment> assignment_;  ///< absent: nothing runs
    std::vector<WorkerFailure> failures_;               ///< in the order they were seen
    bool warm_asked_ = false;                           ///< the pool has been told what to prepare
    bool preparing_ = false;  ///< the agent outside has been asked; nothing runs yet
    bool ran_ = false;        ///< workers were started
    bool settling_ = false;   ///< they are gone, and the agent outside has been told
    bool said_ended_ = false;
    rendezvous::Cause ended_by_ = rendezvous::Cause::infrastructure;  ///< as far as this node knows
    bool stopping_ = false, succeeded_ = false, reported_ = false;
    bool reported_echo_ = false;           ///< what was reported may be another failure's echo
    std::int64_t counted_generation_ = 0;  ///< newest in HealthState::restarts_by_cause
    long long oom_kills_before_ = -1;
    Monotonic started_at_;
    std::optional<Monotonic> broken_at_;  ///< when the last generation failed: recovery time

    struct Hang {
        std::int64_t generation = 0;
        rendezvous::Failure failure;
        std::vector<std::pair<pid_t, sys::fs::path>> processes;  ///< and where each is described
    };
    Hang hang_;
    sys::WakeFd described_;

    std::optional<std::pair<int, Monotonic>> last_signal_;  ///< and when

    // Leaving.
    std::optional<rendezvous::down::Finish> finish_;
    int leave_signal_ = 0;  ///< what announced the departure; programs that catch it get it
    std::string leave_why_;
    std::optional<Deadline> leave_by_;
    bool leaving_ = false;
    bool refused_ = false;          ///< by the coordinator
    int failed_preparations_ = 0;   ///< in a row
    std::optional<int> killed_by_;  ///< a signal ended the job on this node, as in torchrun
    std::optional<int> exit_code_;
    std::jthread describer_;  ///< of what hangs; last, so that it ends first
};

}  // namespace ty::agent
