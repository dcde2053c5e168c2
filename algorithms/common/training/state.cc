// SPDX-License-Identifier: Apache-2.0
// Saving. Three threads touch it: the training thread calls everything public; the copier takes
// copies, at normal priority, because training may have to wait for it; the writer puts them on
// disk at low priority. A save goes idle -> copying -> writing -> idle and there is one at a time.
#include "common/training/state.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/training/state_impl.h"

#include <poll.h>
#include <pthread.h>
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

/// This thread yields to training where both want a processor or the disk.
void lower_priority() {
    // Linux: niceness belongs to a thread, and cannot be lowered again without privileges.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10);
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
    prepare = options.every_updates > 0 || options.every_seconds > 0;
    const SignalsBlocked blocked;
    copier = std::jthread([this](const std::stop_token& stop) { run_copier(stop); });
    writer = std::jthread([this](const std::stop_token& stop) { run_writer(stop); });
}

void StateKeeper::Impl::run_copier(const std::stop_token& stop) {
    if (prepare) {
        try {
            copy.prepare();
        } catch (const Failure&) {
            // said by the first save, which tries again
        }
    }
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [this] { return stage == Stage::copying; })) {
        lock.unlock();
        copy.work();
        copy.wait();
        lock.lock();
        stage = Stage::writing;
        changed.notify_all();
    }
}

void StateKeeper::Impl::run_writer(const std::stop_token& stop) {
    lower_priority();
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [this] { return stage == Stage::writing; })) {
        const Position position = job;
        const std::int64_t steps = job_steps;
        lock.unlock();
        std::string problem;
        try {
            write(position, steps);
        } catch (const std::exception& error) {
            problem = error.what();
        }
        lock.lock();
        if (problem.empty()) {
            ++report.written;
            report.newest = position.update;
            saved = position;
        } else {
            ++report.failed;
            warn("no checkpoint at update {}: {}; training goes on", position.update, problem);
        }
        stage = Stage::idle;
        changed.notify_all();
    }
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
}

void StateKeeper::Impl::start(const Position& position) {
    wanted = false;
    last_start = Clock::now();
    last_update = position.update;
    copy.start();
    copying = true;
    {
        const std::lock_guard lock(mutex);
        job = position;
        job_steps = optimizer.steps();
        stage = Stage::copying;
    }
    changed.notify_all();
}

bool StateKeeper::Impl::is_idle() {
    const std::lock_guard lock(mutex);
    return stage == Stage::idle;
}

void StateKeeper::Impl::wait_until_idle() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stage == Stage::idle; });
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
    write(position, optimizer.steps());
    const std::lock_guard lock(mutex);
    ++report.written;
    report.newest = position.update;
    saved = position;
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
            const std::lock_guard lock(impl.mutex);
            ++impl.report.failed;
            warn("no checkpoint at update {}: {}; training goes on", position.update,
                 problem.what());
        }
        return;
    }
    if (take_save_request() || impl.is_due(position)) impl.wanted = true;
    if (impl.wanted && impl.is_idle()) impl.start(position);
}

void StateKeeper::before_step() {
    Impl& impl = *impl_;
    if (!impl.copying) return;
    const auto start = Clock::now();
    impl.copy.wait();
    impl.copying = false;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::lock_guard lock(impl.mutex);
    impl.report.waited += seconds;
    impl.report.longest = std::max(impl.report.longest, seconds);
}

void StateKeeper::save_now(const Position& position) {
    if (impl_->options.writer) impl_->save_now(position);
}

bool StateKeeper::is_saving() const {
    return !impl_->is_idle();
}

void StateKeeper::request() noexcept {
    request_save();
}

StateKeeper::Report StateKeeper::report() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->report;
}

}  // namespace alg
