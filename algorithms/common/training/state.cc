// SPDX-License-Identifier: Apache-2.0
// Saving. The training thread calls everything public; copiers take copies, at normal priority,
// because training may have to wait for them; the writer gets the memory and puts copies on disk,
// at low priority. A save goes idle -> copying -> writing -> idle and there is one at a time.
#include "common/training/state.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/training/state_impl.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace alg {
namespace {

using Clock = std::chrono::steady_clock;

NamedTensors tensors_of(const std::vector<Parameter>& model, const Optimizer& optimizer) {
    NamedTensors all;
    for (const Parameter& parameter : model)
        all.emplace_back(parameter.name, parameter.value.detach());
    for (const auto& [name, tensor] : optimizer.state()) all.emplace_back(name, tensor.detach());
    return all;
}

/// Signals go to the training thread: they are to interrupt its waits.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

// One thread copies some 5 GB/s, and nobody waits for less than a few dozen milliseconds of it.
constexpr std::size_t kBytesPerCopier = std::size_t{256} << 20;

std::size_t processors() {
    return std::max<std::size_t>(1, std::thread::hardware_concurrency());
}

/// A thread that wakes up takes the processor from one that computes, unless it is of this policy.
/// The share of time it gets is the same.
void be_patient() {
    const sched_param unused{};
    ::sched_setscheduler(0, SCHED_BATCH, &unused);
}

/// This thread yields to training where both want a processor or the disk.
void lower_priority() {
    be_patient();
    // Linux: niceness belongs to a thread, and cannot be lowered again without privileges.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 5);
    constexpr int kThisThread = 1, kBestEffort = 2, kLowest = 7;
    ::syscall(SYS_ioprio_set, kThisThread, 0, kBestEffort << 13 | kLowest);
}

}  // namespace

StateKeeper::Impl::Impl(StateOptions given, std::vector<Parameter> parameters,
                        Optimizer& optimizer_)
    : options(std::move(given)),
      model(std::move(parameters)),
      optimizer(optimizer_),
      copy(tensors_of(model, optimizer)),
      last_start(Clock::now()) {
    if (options.keep < 1)
        fail("keeping {} checkpoints; at least 1 must stay to be resumed from", options.keep);
    if (options.request_file.empty()) {
        const char* named = std::getenv("TRAINYARD_CHECKPOINT_REQUEST");
        if (named != nullptr) options.request_file = named;
    }
    if (!options.writer) return;
    const SignalsBlocked blocked;
    writer = std::jthread([this] { run_writer(); });
    const std::size_t useful = std::clamp<std::size_t>(copy.bytes() / kBytesPerCopier, 1, 4);
    for (std::size_t i = 0; i < std::min<std::size_t>(useful, processors()); ++i)
        copiers.emplace_back([this] { run_copier(); });
    if (options.every_updates > 0 || options.every_seconds > 0) {
        set_stage(Stage::preparing);
        to_write.release();
    }
}

StateKeeper::Impl::~Impl() {
    stop.request_stop();
    wait_until_idle();  // what was begun is written
    to_write.release();
    to_copy.release(static_cast<std::ptrdiff_t>(copiers.size()));
}

void StateKeeper::Impl::set_stage(Stage next) {
    const int round = status / kRound;
    status = round * kRound + static_cast<int>(next);
    status.notify_all();
}

void StateKeeper::Impl::run_copier() {
    be_patient();
    while (true) {
        to_copy.acquire();
        int seen = status;
        if (static_cast<Stage>(seen % kRound) != Stage::copying) {
            if (stop.stop_requested()) return;
            continue;  // the others were faster
        }
        copy.work();
        copy.wait();
        // Only the first one of this round passes it on. A slow one may find itself in a later
        // round, whose copy is not complete.
        const int copied =
            seen - static_cast<int>(Stage::copying) + static_cast<int>(Stage::writing);
        if (status.compare_exchange_strong(seen, copied)) to_write.release();
    }
}

void StateKeeper::Impl::run_writer() {
    lower_priority();
    while (true) {
        to_write.acquire();
        const Stage now = stage();
        if (now == Stage::preparing) {
            prepare();
        } else if (now == Stage::writing) {
            write_job();
        } else {
            return;  // the end
        }
        set_stage(Stage::idle);
    }
}

void StateKeeper::Impl::prepare() {
    try {
        copy.prepare(stop.get_token());
    } catch (const Failure&) {
        // said by the first save, which tries again
    }
}

void StateKeeper::Impl::write_job() {
    try {
        write(job, job_steps);
    } catch (const std::exception& problem) {
        count_failure(job, problem.what());
    }
}

void StateKeeper::Impl::count_failure(const Position& position, const char* problem) {
    ++failed;
    warn("no checkpoint at update {}: {}; training goes on", position.update, problem);
}

void StateKeeper::Impl::write(const Position& position, std::int64_t steps) {
    const NamedTensors& copies = copy.copies();
    const auto middle = copies.begin() + static_cast<std::ptrdiff_t>(model.size());
    const State state{.position = position,
                      .steps = steps,
                      .model = NamedTensors(copies.begin(), middle),
                      .optimizer = NamedTensors(middle, copies.end())};
    write_torch(state_file(options.folder, position.update), encode(state));
    remove_old_states(options.folder, position.update, options.keep, damaged);
    damaged.clear();
    saved = position;
    newest = position.update;
    ++written;
}

void StateKeeper::Impl::start_if_idle(const Position& position) {
    const Stage now = stage();
    if (now == Stage::unprepared) {
        set_stage(Stage::preparing);  // the save begins after a later update
        to_write.release();
    }
    if (now != Stage::idle) return;
    wanted = false;
    last_start = Clock::now();
    last_update = position.update;
    job = position;
    job_steps = optimizer.steps();
    copy.start();
    copying = true;
    const int round = (status / kRound + 1) % (1 << 20);
    status = round * kRound + static_cast<int>(Stage::copying);
    to_copy.release(static_cast<std::ptrdiff_t>(copiers.size()));
}

void StateKeeper::Impl::wait_until_idle() {
    const auto at_rest = [](int now) {
        const auto stage = static_cast<Stage>(now % kRound);
        return stage == Stage::idle || stage == Stage::unprepared;
    };
    for (int now = status; !at_rest(now); now = status) status.wait(now);
    copying = false;
}

bool StateKeeper::Impl::is_due(const Position& position) const {
    const std::int64_t every = options.every_updates;
    if (every > 0 && position.update / every > last_update / every) return true;
    return options.every_seconds > 0 &&
           std::chrono::duration<double>(Clock::now() - last_start).count() >=
               options.every_seconds;
}

void StateKeeper::Impl::answer_launcher(const Position& position) {
    save_now(position);
    std::error_code ignored;
    fs::remove(options.request_file, ignored);
    // What is trained after this save would be lost. The launcher ends this process when it has
    // seen the answer; a signal ends the wait, too.
    ::poll(nullptr, 0, static_cast<int>(options.leave_within.count()));
}

void StateKeeper::Impl::save_now(const Position& position) {
    wait_until_idle();  // hence nobody else touches what follows
    wanted = false;
    last_start = Clock::now();
    last_update = position.update;
    if (saved == position) return;
    copy.start();
    copy.wait();
    set_stage(Stage::idle);  // prepared, if it was not
    write(position, optimizer.steps());
}

StateKeeper::StateKeeper(StateOptions options, std::vector<Parameter> model, Optimizer& optimizer)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(model), optimizer)) {}

StateKeeper::~StateKeeper() = default;

void StateKeeper::after_update(const Position& position) {
    Impl& impl = *impl_;
    if (!impl.options.writer) return;
    std::error_code ignored;
    if (!impl.options.request_file.empty() && fs::exists(impl.options.request_file, ignored)) {
        take_save_request();  // its signal, which comes with the file
        try {
            impl.answer_launcher(position);
        } catch (const std::exception& problem) {
            impl.count_failure(position, problem.what());
        }
        return;
    }
    if (take_save_request() || impl.is_due(position)) impl.wanted = true;
    if (impl.wanted) impl.start_if_idle(position);
}

void StateKeeper::before_step() {
    Impl& impl = *impl_;
    if (!impl.copying) return;
    const auto start = Clock::now();
    impl.copy.wait();
    impl.copying = false;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    impl.waited += seconds;
    impl.longest = std::max(impl.longest, seconds);
}

void StateKeeper::save_now(const Position& position) {
    if (impl_->options.writer) impl_->save_now(position);
}

bool StateKeeper::is_saving() const {
    const Impl::Stage stage = impl_->stage();
    return stage == Impl::Stage::copying || stage == Impl::Stage::writing;
}

void StateKeeper::request() noexcept {
    request_save();
}

StateKeeper::Report StateKeeper::report() const {
    const Impl& impl = *impl_;
    return {.waited = impl.waited,
            .longest = impl.longest,
            .written = impl.written,
            .failed = impl.failed,
            .newest = impl.newest};
}

}  // namespace alg
