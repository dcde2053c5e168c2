// SPDX-License-Identifier: Apache-2.0
// How a node comes into the job and how it leaves it: by verdict, signal, notice, fence or guard.
#include "agent/launcher/node_agent.h"
#include "agent/launcher/workers/guard.h"
#include "agent/launcher/workers/numa.h"
#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <csignal>

#include <unistd.h>

namespace ty::agent {

namespace {

using namespace rendezvous;

/// A node that waits longer than this for its first generation uses the time to warm up.
constexpr milliseconds kIdleWarmUpDelay{100};
constexpr milliseconds kSayWaiting{2000};
constexpr milliseconds kOthersMayNeedUs{5000};
/// timeout(1) and a shell both send the same signal: that is not somebody who asks twice.
constexpr milliseconds kSameSignal{500};

/// The exit codes of --exit-code-policy semantic.
constexpr int kDrained = 143, kMisfit = 78, kRequeue = 75, kApplication = 1;

std::vector<int> watched_signals(const LaunchOptions& options) {
    std::vector<int> signals = options.signals;
    signals.push_back(SIGUSR1);
    signals.push_back(SIGCHLD);
    signals.push_back(guard_died_signal());
    return signals;
}

/// "host", "host:port", "[v6]:port"; several separated by commas.
std::vector<std::pair<std::string, std::uint16_t>> endpoints_of(const LaunchOptions& options) {
    std::vector<std::pair<std::string, std::uint16_t>> result;
    for (const std::string& text : split(options.rdzv_endpoint, ',')) {
        std::string host = text;
        std::string port = "29400";
        const std::size_t colon = text.rfind(':');
        if (colon != std::string::npos && text.find(']', colon) == std::string::npos) {
            host = text.substr(0, colon);
            port = text.substr(colon + 1);
        }
        if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
        const long long number = parse_int(port).value_or(-1);
        if (host.empty() || number < 0 || number > 65535) {
            throw_error(Code::invalid, "", "--rdzv-endpoint: \"{}\" is not host:port", text);
        }
        result.emplace_back(host, static_cast<std::uint16_t>(number));
    }
    return result;
}

sys::fs::path private_state_dir() {
    const char* runtime = ::getenv("XDG_RUNTIME_DIR");
    const sys::fs::path base = runtime != nullptr && *runtime != '\0' ? runtime : "/tmp";
    return base / format("trainyard-run-{}", ::getuid());
}

}  // namespace

NodeAgent::NodeAgent(LaunchOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      base_(Variables::inherited()),
      signals_(watched_signals(options_)),
      facts_(facts_of(options_, options_.is_alone() ? "" : endpoints_of(options_).front().first)),
      cpus_(options_.numa_binding.empty()
                ? std::vector<std::vector<int>>()
                : numa_cpus(options_.numa_binding, options_.workers, this_machine())),
      logs_(options_),
      ports_(options_.port_low, options_.port_high),
      progress_(options_.hang_timeout) {
    events_ = std::make_unique<EventLog>(options_.events, options_.rdzv_id, facts_.id, clock_);
    workers_ = std::make_unique<WorkerGroup>(poller_,
                                             [this](const WorkerEnd& end) { on_worker_end(end); });
    checkpoints_ =
        std::make_unique<CheckpointWatch>(poller_, options_.checkpoint_dir, request_file_);
    if (options_.warm && can_restart()) pool_ = std::make_unique<WarmPool>(poller_);
    if (!options_.health_address.empty()) {
        health_server_ = std::make_unique<HealthServer>(
            options_.health_address,
            [this](std::optional<milliseconds> grace) {
                drain_asked_.with([&](std::optional<Notice>& asked) {
                    asked = Notice{.deadline = grace, .why = "POST /drain"};
                });
                drain_wake_.notify();
            },
            options_.token);
    }
    notices_ = std::make_unique<NoticeSources>(
        poller_, options_, clock_,
        [this](const Notice& notice) { leave(notice.deadline, notice.why, 0); });
}

NodeAgent::~NodeAgent() = default;

void NodeAgent::open_link() {
    LinkCallbacks callbacks;
    callbacks.on_message = [this](const Down& message) { on_down(message); };
    callbacks.on_fenced = [this](const std::string& why) { on_fenced(why); };
    callbacks.on_fence_lifted = [this] { health_.fenced = false; };
    callbacks.on_gone = [this](Gone how, const std::string& why) { on_gone(how, why); };
    callbacks.on_note = [this](const Effects::Note& what) { note(what.what, what.fields); };
    callbacks.make_hello = [this] { return hello(); };
    Policy policy = policy_of(options_);
    if (options_.is_alone()) {
        link_ = make_local_link(poller_, std::move(policy), std::move(callbacks));
    } else {
        RemoteOptions remote;
        remote.endpoints = endpoints_of(options_);
        remote.external = options_.elastic;
        remote.may_host = options_.rdzv_backend != "static" || options_.node_rank.value_or(0) == 0;
        remote.token = options_.token;
        remote.policy = std::move(policy);
        remote.facts = facts_;
        remote.state_dir = private_state_dir();
        remote.agent_binary = "/proc/self/exe";
        link_ = make_remote_link(poller_, std::move(remote), std::move(callbacks));
    }
    link_->open();
}

up::Hello NodeAgent::hello() {
    // The first generation of a job on one machine gets the port that was asked for, if it is free.
    const int wanted = options_.rdzv_backend == "static" && options_.is_alone() && !assignment_
                           ? options_.master_port
                           : 0;
    up::Hello hello;
    hello.facts = facts_;
    hello.running = assignment_ ? assignment_->generation : 0;
    hello.master_port = ports_.hold(wanted);
    if (wanted != 0 && options_.master_port_given && hello.master_port != wanted &&
        health_.generation == 0) {
        throw_error(Code::conflict, "",
                    "--master-port {}: the port is in use; free it, choose another, or leave the "
                    "flag out to get a free one",
                    wanted);
    }
    hello.warm = pool_ == nullptr || (warm_asked_ && pool_->settled());
    return hello;
}

int NodeAgent::run() {
    poller_.add(signals_.fd(), [this] {
        while (const int number = signals_.next()) on_signal(number);
    });
    poller_.add(drain_wake_.fd(), [this] {
        drain_wake_.drain();
        const std::optional<Notice> notice = drain_asked_.with(
            [](std::optional<Notice>& asked) { return std::exchange(asked, std::nullopt); });
        if (notice) leave(notice->deadline, notice->why, 0);
    });
    poller_.add(described_.fd(), [this] { on_described(); });
    if (pool_) {
        pool_->on_settled([this] {
            if (!assignment_) link_->send(up::Warm{});
        });
    }
    note("launcher_started", {{"pid", std::to_string(::getpid())}, {"script", options_.script}});
    update_health("gathering");
    open_node_socket();
    open_link();
    if (!options_.is_alone()) {
        schedule_warm_up(kIdleWarmUpDelay);
        poller_.set_timer("waiting", Deadline::in(kSayWaiting), [this] {
            if (assignment_ || finish_) return;
            sys::write_all(
                2,
                format("trainyard run: waiting at {} for the job's nodes ({} to {} are wanted)\n",
                       options_.rdzv_endpoint, options_.min_nodes, options_.max_nodes));
        });
    }
    while (!exit_code_) poller_.run_once(Deadline::never(), {});
    update_health("over");
    link_->close(*exit_code_ == 0 ? kOthersMayNeedUs : milliseconds(1000));
    note("launcher_ended", {{"exit_code", std::to_string(*exit_code_)}});
    return *exit_code_;
}

void NodeAgent::on_down(const Down& message) {
    if (const auto* order = std::get_if<down::Start>(&message)) start(order->assignment);
    if (const auto* order = std::get_if<down::Abort>(&message)) abort(*order);
    if (const auto* order = std::get_if<down::CheckpointNow>(&message)) checkpoint_now(*order);
    if (const auto* order = std::get_if<down::Finish>(&message)) finish(*order);
    if (const auto* order = std::get_if<down::Refused>(&message)) {
        on_gone(Gone::refused, order->why);
    }
}

void NodeAgent::on_fenced(const std::string& why) {
    health_.fenced = true;
    note("fenced", {{"why", why}});
    if (!assignment_ || settling_) return;
    say_ended(to_string(Cause::infrastructure));
    sys::write_all(2, format("trainyard run: stopped the workers of generation {}: {}\n",
                             assignment_->generation, why));
    stop_workers({});
}

void NodeAgent::on_gone(Gone how, const std::string& why) {
    refused_ = refused_ || how == Gone::refused;
    finish({.verdict = Verdict::failed, .cause = Cause::infrastructure, .why = why, .root = {}});
}

void NodeAgent::finish(const down::Finish& order) {
    if (finish_) return;
    finish_ = order;
    say_ended(order.verdict == Verdict::succeeded ? "succeeded" : to_string(order.cause));
    if (!assignment_) return conclude();
    if (workers_->empty()) return workers_stopped();
    if (!stopping_) stop_workers({.signal = SIGTERM, .grace = options_.abort_grace});
}

int NodeAgent::exit_code_for(const down::Finish& order) const {
    if (order.verdict == Verdict::succeeded) return 0;
    if (!options_.semantic_exit_codes) return 1;
    if (refused_) return kMisfit;
    if (order.verdict == Verdict::drained) return kDrained;
    return order.cause == Cause::application || order.cause == Cause::hang ? kApplication
                                                                           : kRequeue;
}

void NodeAgent::conclude() {
    if (exit_code_) return;
    if (assignment_) {
        assignment_.reset();
        logs_.drain(true);
    }
    workers_->kill_all();
    if (pool_) pool_->discard_all();
    if (killed_by_) {
        sys::write_all(2, format("trainyard run: {} received; the workers were stopped\n",
                                 sys::signal_name(*killed_by_)));
        exit_code_ = options_.semantic_exit_codes ? 128 + *killed_by_ : 1;
        return;
    }
    exit_code_ = exit_code_for(*finish_);
    if (finish_->verdict == Verdict::drained) {
        sys::write_all(2, format("trainyard run: this node has left the job: {}\n",
                                 leaving_ ? leave_why_ : finish_->why));
    } else if (finish_->verdict == Verdict::failed) {
        // Workers that were only stopped for a failure elsewhere are no root cause.
        if (reported_ && !failures_.empty()) {
            std::ranges::stable_sort(failures_, {}, &WorkerFailure::when);
            const WorkerFailure& root = failures_.front();
            if (const char* path = ::getenv("TORCHELASTIC_ERROR_FILE");
                path != nullptr && *path != '\0') {
                capture([&] { write_reply_file(path, root); });
            }
            logs_.flush();
            sys::write_all(2,
                           failure_summary(entrypoint_name(options_), full_host_name(), failures_));
        }
        sys::write_all(2, format("trainyard run: {}: {}\n",
                                 refused_ ? "the job does not take this node" : "the job failed",
                                 finish_->why));
    }
}

void NodeAgent::on_signal(int number) {
    if (number == SIGCHLD) {
        workers_->reap_adopted();
        return;
    }
    if (number == guard_died_signal()) {
        on_guard_died();
        return;
    }
    if (is_repeated(number)) {
        note("signal_repeated", {{"signal", sys::signal_name(number)}});
        return;
    }
    note("signal", {{"signal", sys::signal_name(number)}});
    // The agent of an elastic job announces a departure over its socket; its SIGTERM ends the job.
    const bool announces =
        number == SIGUSR1 || (number == SIGTERM && !options_.elastic &&
                              (!options_.is_alone() || !options_.checkpoint_dir.empty()));
    if (announces && !leaving_ && !killed_by_ && !finish_) {
        leave(std::nullopt, format("{} received", sys::signal_name(number)),
              number == SIGUSR1 ? 0 : number);
    } else {
        stop_by_signal(number);
    }
}

bool NodeAgent::is_repeated(int number) {
    const Monotonic now = clock_.monotonic();
    if (last_signal_ && last_signal_->first == number && now - last_signal_->second < kSameSignal) {
        return true;
    }
    last_signal_ = {number, now};
    return false;
}

void NodeAgent::leave(std::optional<milliseconds> deadline, const std::string& why, int signal) {
    if (finish_ || killed_by_) return;
    const milliseconds grace = deadline.value_or(options_.drain_timeout);
    leaving_ = true;
    leave_signal_ = signal;
    leave_why_ = why;
    leave_by_ = Deadline::in(grace);
    note("leaving", {{"why", why}, {"grace_ms", std::to_string(grace.count())}});
    link_->send(up::Leaving{grace, why});
    // Whatever the others do: this machine ends at its deadline.
    poller_.set_timer("leave", Deadline::in(grace + milliseconds(500)), [this, why] {
        if (!finish_)
            finish(
                {.verdict = Verdict::drained, .cause = Cause::preemption, .why = why, .root = {}});
    });
}

void NodeAgent::stop_by_signal(int number) {
    if (killed_by_ || exit_code_) {
        if (settling_) return end_generation();
        if (assignment_) stop_workers({});  // asked twice: now
        return;
    }
    killed_by_ = number;
    // Every node of an elastic job is told at the same time: none of them ends the others' grace.
    const bool others_must_know = !options_.is_alone() && !options_.elastic;
    if (others_must_know) link_->send(up::Leaving{milliseconds(0), sys::signal_name(number)});
    if (!assignment_) return conclude();
    if (workers_->empty()) return workers_stopped();
    stopping_ = false;  // this grace replaces any other
    stop_workers({.signal = number, .grace = options_.shutdown_timeout});
}

void NodeAgent::on_guard_died() {
    killed_by_ = SIGKILL;
    if (assignment_) stop_workers({});
    kill_descendants(milliseconds(1000));
    conclude();
}

}  // namespace ty::agent
