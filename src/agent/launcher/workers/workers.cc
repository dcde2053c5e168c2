// SPDX-License-Identifier: Apache-2.0
// The group of workers: pidfds in the poller, ends reported after removal, one kill for all.
//
// A worker and all it starts carry a mark (a soft resource limit nobody uses). When a descendant
// loses its parent it becomes our child, and the mark tells it from children of ours that are none
// of the group's business: standby interpreters, the coordinator, tools.
#include "agent/launcher/workers/workers.h"

#include "agent/launcher/workers/process_tree.h"
#include "agent/launcher/workers/worker_cgroup.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>

#include <sched.h>
extern "C" {  // glibc 2.36 forgot to say so itself
#include <sys/pidfd.h>
}
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent {

namespace {

struct Worker {
    int local_rank = 0;
    pid_t pid = 0;
    sys::Fd pidfd;
};

constexpr auto kPidfd = static_cast<idtype_t>(3);            // P_PIDFD
constexpr std::uint64_t kMarkFamily = 0x7479'6172ULL << 24;  // above any sensible count of locks
constexpr std::uint64_t kFamilyBits = ~((1ULL << 24) - 1);

/// The soft limit a process carries; 0 when it is gone or not ours to ask.
std::uint64_t mark_of(pid_t pid) {
    rlimit limit = {};
    return ::prlimit(pid, RLIMIT_LOCKS, nullptr, &limit) == 0 ? limit.rlim_cur : 0;
}

/// The mark for our workers: it differs from our own, which we have when we are a worker ourselves.
std::uint64_t new_mark() {
    const std::uint64_t mark = kMarkFamily | (static_cast<std::uint64_t>(::getpid()) & 0x3fffff);
    return mark == mark_of(0) ? mark ^ 0x800000 : mark;
}

/// A standby runs already; its first statements may have been quicker than this.
void set_mark(pid_t pid, std::uint64_t mark) {
    rlimit limit = {};
    if (::prlimit(pid, RLIMIT_LOCKS, nullptr, &limit) != 0) return;
    limit.rlim_cur = mark;
    ::prlimit(pid, RLIMIT_LOCKS, &limit, nullptr);
}

/// All threads of a running process, as spawn_worker does before the program starts.
void bind_to(pid_t pid, const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    const int highest = *std::max_element(cpus.begin(), cpus.end());
    std::vector<unsigned long> bits(CPU_ALLOC_SIZE(highest + 1) / sizeof(unsigned long));
    const std::size_t size = bits.size() * sizeof(unsigned long);
    auto* set = reinterpret_cast<cpu_set_t*>(bits.data());
    for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), size, set);
    std::error_code error;
    const sys::fs::path tasks = format("/proc/{}/task", pid);
    for (const auto& entry : sys::fs::directory_iterator(tasks, error)) {
        const auto thread = parse_int(entry.path().filename().string());
        if (thread) ::sched_setaffinity(static_cast<pid_t>(*thread), size, set);
    }
}

/// Reap it if it has ended.
std::optional<sys::Exit> try_reap(const Worker& worker) {
    siginfo_t info = {};
    while (::waitid(kPidfd, static_cast<id_t>(worker.pidfd.get()), &info, WEXITED | WNOHANG) < 0) {
        // ECHILD: somebody else has reaped it, its code is lost. It must not count as alive.
        if (errno != EINTR) return sys::Exit{.code = 255};
    }
    if (info.si_pid == 0) return std::nullopt;
    if (info.si_code == CLD_EXITED) return sys::Exit{.code = info.si_status};
    return sys::Exit{.signal = info.si_status};
}

}  // namespace

struct WorkerGroup::State {
    State(sys::Poller& p, std::function<void(const WorkerEnd&)> fn)
        : poller(p), on_end(std::move(fn)), timer(format("adopted {}", static_cast<void*>(this))) {}

    sys::Poller& poller;
    std::function<void(const WorkerEnd&)> on_end;
    std::string timer;
    std::uint64_t mark = 0;
    std::vector<Worker> workers;   ///< alive
    std::vector<WorkerEnd> ended;  ///< reaped, not reported yet
    sys::WakeFd news;              ///< readable while `ended` waits to be reported
    std::set<pid_t> groups;        ///< process groups workers lead, also of those that have ended
    WorkerCgroup cgroup;
    int warm = 0;
    long long last_oom_kills = -1;

    Worker* find(pid_t pid) {
        const auto it = std::ranges::find(workers, pid, &Worker::pid);
        return it == workers.end() ? nullptr : &*it;
    }
    bool is_stray(pid_t pid) const {
        const std::uint64_t found = mark_of(pid);
        return (found & kFamilyBits) == kMarkFamily && found != mark_of(0);
    }

    void add(int local_rank, pid_t pid) {
        sys::Fd pidfd(::pidfd_open(pid, 0));
        if (!pidfd.is_open()) {
            const int error = errno;
            ::kill(pid, SIGKILL);
            while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
            throw errno_error(error, format("watch process {}", pid));
        }
        poller.add(pidfd.get(), [this, pid] {
            if (reap_worker(pid, false)) report();
        });
        if (::getpgid(pid) == pid) groups.insert(pid);
        workers.push_back({local_rank, pid, std::move(pidfd)});
    }

    /// Into `ended` and out of `workers`, if it has ended.
    bool reap_worker(pid_t pid, bool by_us) {
        const auto it = std::ranges::find(workers, pid, &Worker::pid);
        if (it == workers.end()) return false;
        const std::optional<sys::Exit> exit = try_reap(*it);
        if (!exit) return false;
        ended.push_back({it->local_rank, pid, *exit, by_us});
        poller.remove(it->pidfd.get());
        workers.erase(it);
        news.notify();
        return true;
    }
    void reap_workers(bool by_us) {
        for (const auto& [rank, pid] : pids()) reap_worker(pid, by_us);
    }
    std::vector<std::pair<int, pid_t>> pids() const {
        std::vector<std::pair<int, pid_t>> result;
        for (const Worker& worker : workers) result.emplace_back(worker.local_rank, worker.pid);
        return result;
    }

    /// One at a time, from a list the callback may change.
    void report() {
        reap_adopted();
        while (!ended.empty()) {
            const WorkerEnd end = ended.front();
            ended.erase(ended.begin());
            on_end(end);
        }
        news.drain();
    }

    void reap_adopted() {
        for (const pid_t child : own_children()) {
            if (find(child) == nullptr && is_stray(child)) ::waitpid(child, nullptr, WNOHANG);
        }
    }
    void watch_adopted() {
        poller.set_timer(timer, Deadline::in(seconds(1)), [this] {
            reap_adopted();
            if (!workers.empty()) watch_adopted();
        });
    }
};

WorkerGroup::WorkerGroup(sys::Poller& poller, std::function<void(const WorkerEnd&)> on_end)
    : state_(std::make_unique<State>(poller, std::move(on_end))) {
    state_->mark = new_mark();
    State* state = state_.get();
    poller.add(state->news.fd(), [state] { state->report(); });
}

WorkerGroup::~WorkerGroup() {
    kill_all();
    for (const Worker& worker : state_->workers) state_->poller.remove(worker.pidfd.get());
    state_->poller.remove(state_->news.fd());
    state_->poller.cancel_timer(state_->timer);
}

void WorkerGroup::start(const std::vector<WorkerSpec>& specs, WarmPool* pool,
                        const std::string& cgroup_name) {
    State& state = *state_;
    TY_ASSERT(state.workers.empty());
    state.ended.clear();
    state.groups.clear();
    state.warm = 0;
    state.cgroup = WorkerCgroup::create(cgroup_name);
    state.last_oom_kills = -1;
    try {
        for (const WorkerSpec& spec : specs) {
            if (pool != nullptr) {
                // Not into the cgroup: moving a running process takes tens of milliseconds, and the
                // tree is walked in any case.
                const std::optional<pid_t> pid = pool->take(spec.local_rank, spec.argv, spec.env,
                                                            spec.stdout_fd, spec.stderr_fd, -1);
                if (pid) {
                    set_mark(*pid, state.mark);
                    state.add(spec.local_rank, *pid);
                    bind_to(*pid, spec.cpus);
                    ++state.warm;
                    continue;
                }
            }
            WorkerSpec marked = spec;
            marked.mark = state.mark;
            state.add(spec.local_rank, spawn_worker(marked, state.cgroup.procs()));
        }
    } catch (...) {
        kill_all();
        state.ended.clear();
        throw;
    }
    state.watch_adopted();
}

bool WorkerGroup::empty() const {
    return state_->workers.empty();
}

std::size_t WorkerGroup::alive() const {
    return state_->workers.size();
}

std::vector<std::pair<int, pid_t>> WorkerGroup::pids() const {
    return state_->pids();
}

int WorkerGroup::warm_starts() const {
    return state_->warm;
}

void WorkerGroup::signal(int number) {
    for (const Worker& worker : state_->workers)
        ::pidfd_send_signal(worker.pidfd.get(), number, nullptr, 0);
}

int WorkerGroup::signal_catchers(int number) {
    int count = 0;
    for (const Worker& worker : state_->workers) {
        if (!catches(worker.pid, number)) continue;
        if (::pidfd_send_signal(worker.pidfd.get(), number, nullptr, 0) == 0) ++count;
    }
    return count;
}

bool WorkerGroup::catches(pid_t pid, int number) {
    const Result<std::string> status =
        capture([pid] { return sys::read_file(format("/proc/{}/status", pid)); });
    if (!status.ok() || number < 1 || number > 64) return false;
    for (const std::string& line : split(Result<std::string>(status).value(), '\n')) {
        if (!line.starts_with("SigCgt:")) continue;
        const std::string digits(trim(std::string_view(line).substr(7)));
        const unsigned long long mask = std::strtoull(digits.c_str(), nullptr, 16);
        return ((mask >> (number - 1)) & 1) != 0;
    }
    return false;
}

std::vector<pid_t> WorkerGroup::kill_all(milliseconds patience) {
    State& state = *state_;
    const Deadline by = Deadline::in(patience);
    state.reap_workers(false);
    state.last_oom_kills = oom_kills();
    state.cgroup.kill();
    const auto selects = [&state](pid_t pid) {
        return state.find(pid) != nullptr || state.is_stray(pid);
    };
    const auto reap = [&state](pid_t pid) {
        if (state.find(pid) != nullptr) return state.reap_worker(pid, true);
        return ::waitpid(pid, nullptr, WNOHANG) != 0;
    };
    std::vector<pid_t> survivors =
        kill_tree({.selects = selects, .reap = reap, .groups = state.groups}, by);
    if (survivors.empty()) state.cgroup.remove();
    return survivors;
}

std::vector<WorkerEnd> WorkerGroup::take_ended() {
    state_->reap_workers(false);
    return std::exchange(state_->ended, {});
}

long long WorkerGroup::oom_kills() const {
    if (state_->cgroup.is_open()) {
        const long long count = state_->cgroup.oom_kills();
        if (count >= 0) return count;
    } else if (state_->last_oom_kills >= 0) {
        return state_->last_oom_kills;  // the group is gone, what it counted is not
    }
    const Result<std::string> vmstat = capture([] { return sys::read_file("/proc/vmstat"); });
    if (!vmstat.ok()) return -1;
    for (const std::string& line : split(Result<std::string>(vmstat).value(), '\n')) {
        if (line.starts_with("oom_kill ")) return parse_int(line.substr(9)).value_or(-1);
    }
    return -1;
}

void WorkerGroup::reap_adopted() {
    state_->reap_adopted();
}

}  // namespace ty::agent
