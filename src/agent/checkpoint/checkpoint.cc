// SPDX-License-Identifier: Apache-2.0
// When to look, and who may: one thread of our own commits what became whole; flush, settle and
// refresh work on the caller's thread. Whoever touches the writer holds the turn.
#include "agent/checkpoint/checkpoint.h"

#include "agent/checkpoint/fetch.h"
#include "agent/checkpoint/place.h"
#include "agent/checkpoint/watch.h"
#include "agent/checkpoint/writer.h"
#include "agent/contract/layout.h"
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/retry.h"
#include "base/sync.h"
#include "sys/sys.h"

#include <algorithm>
#include <optional>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr milliseconds kFirstDelay{1'000};
constexpr milliseconds kLongestDelay{30'000};
constexpr int kFlushTries = 3;

/// The training goes first, on the CPU and on the disk. Threads started later inherit it.
void be_humble() {
    constexpr int kWhoThread = 1, kBestEffort = 2, kLast = 7;
    ::setpriority(PRIO_PROCESS, 0, 10);
    ::syscall(SYS_ioprio_set, kWhoThread, 0, (kBestEffort << 13) | kLast);
}

CheckpointOptions complete(CheckpointOptions options) {
    while (options.folder.has_relative_path() && options.folder.filename().empty())
        options.folder = options.folder.parent_path();
    if (options.staging.empty()) options.staging = options.folder.string() + ".staging";
    if (options.job_id.empty()) options.job_id = options.job;
    if (!options.say) options.say = [](const std::string&) {};
    if (!options.on_commit) options.on_commit = [](const plan::CheckpointCommitted&) {};
    if (!options.on_restore) options.on_restore = [](const plan::CheckpointRestored&) {};
    return options;
}

}  // namespace

struct CheckpointSync::Impl {
    Impl(CheckpointOptions given, Clock& source)
        : options(complete(std::move(given))),
          clock(source),
          place(options, clock),
          watch(options.folder,
                options.watch ? FolderWatch::Use::kernel : FolderWatch::Use::nothing),
          writer(options, place, watch, clock) {}

    /// Who holds it may use the writer.
    struct Turn {
        bool taken = false;
        bool paused = true;           ///< between generations: nothing is taken by itself
        std::stop_source background;  ///< of the commit our own thread is at
    };
    struct Release {
        Sync<Turn>& turn;
        ~Release() {
            turn.with([](Turn& state) { state.taken = false; });
            turn.notify();
        }
    };

    void take_turn(Deadline by, const std::stop_token& stop);
    bool try_turn(std::stop_token& stop);
    void commit_all(Deadline by, const std::stop_token& stop);
    void tidy_quietly(Deadline by, const std::stop_token& stop);
    Restored fetch(std::optional<std::int64_t> generation, Deadline by,
                   const std::stop_token& stop);

    // Our own thread.
    struct Pace {
        bool untidy = false;              ///< the last commit left something to do
        bool dirty = true;                ///< something happened since the last complete commit
        Monotonic touched;                ///< last
        std::optional<Monotonic> closed;  ///< first that is not in storage yet
        Monotonic not_before;
        Backoff backoff{kFirstDelay, kLongestDelay};
        std::string complaint;  ///< said already
        std::vector<ScannedFile> scan;
    };
    void run(const std::stop_token& stop);
    void observe(Pace& pace);
    std::optional<CheckpointWriter::Mode> due(const Pace& pace) const;
    Deadline next_look(const Pace& pace) const;
    void attempt(Pace& pace, CheckpointWriter::Mode mode, const std::stop_token& stop);
    void after(Pace& pace, CheckpointWriter::Mode mode, CheckpointWriter::Outcome outcome);
    void failed(Pace& pace, const Error& error);

    const CheckpointOptions options;
    Clock& clock;
    const CheckpointPlace place;
    Sync<FolderWatch> watch;
    CheckpointWriter writer;                 // under the turn
    bool restored = false, settled = false;  // caller's thread
    std::int64_t attempt_in_prefix = 0;      // caller's thread
    Sync<Turn> turn;
    TaskGroup threads;
};

// ---- turns

void CheckpointSync::Impl::take_turn(Deadline by, const std::stop_token& stop) {
    const auto is_free = [](const Turn& state) { return !state.taken; };
    const auto take = [](Turn& state) {
        const bool free = !state.taken;
        state.taken = true;
        return free;
    };
    // What our thread is storing is worth half of the time; then it has to give way.
    const Deadline half = by.is_never() ? by : Deadline::in(by.left() / 2);
    if (turn.wait(half, stop, is_free, take)) return;
    turn.with([](Turn& state) { state.background.request_stop(); });
    if (turn.wait(by, stop, is_free, take)) return;
    if (stop.stop_requested())
        throw_error(Code::cancelled, "Stopped", "the checkpoint was cancelled");
    throw_error(Code::timed_out, "", "an earlier checkpoint is still on its way to {}",
                options.checkpoint.uri);
}

bool CheckpointSync::Impl::try_turn(std::stop_token& stop) {
    return turn.with([&](Turn& state) {
        if (state.taken || state.paused) return false;
        state.taken = true;
        state.background = std::stop_source();
        stop = state.background.get_token();
        return true;
    });
}

void CheckpointSync::Impl::commit_all(Deadline by, const std::stop_token& stop) {
    using Outcome = CheckpointWriter::Outcome;
    // A file that changed while it was read gets another chance; one that is torn stays out.
    for (int i = 0; i < kFlushTries; ++i) {
        const Outcome outcome = writer.commit(CheckpointWriter::Mode::rather, by, stop);
        if (outcome == Outcome::nothing || outcome == Outcome::committed) break;
    }
    if (!writer.is_tidy()) tidy_quietly(by, stop);
}

void CheckpointSync::Impl::tidy_quietly(Deadline by, const std::stop_token& stop) {
    const auto done = capture([&] { writer.tidy(by, stop); });
    if (!done.ok())
        log::warning("tidying up checkpoints waits for the next one",
                     {{"error", done.error().what()}});
}

// ---- restoring

CheckpointSync::Restored CheckpointSync::Impl::fetch(std::optional<std::int64_t> generation,
                                                     Deadline by, const std::stop_token& stop) {
    std::optional<Epoch> epoch;
    if (generation) epoch = Epoch{attempt_in_prefix, *generation};
    const FetchAsk ask{options, place, writer.files(), writer.plain(), epoch};
    Fetched fetched = fetch_checkpoint(ask, by, stop);
    attempt_in_prefix = fetched.attempts_before + options.attempt;
    writer.adopt(std::move(fetched.adopted), Epoch{attempt_in_prefix, generation.value_or(0)});
    watch.with([](FolderWatch& folder) {
        folder.take_seen();
        folder.trust();
    });
    restored = true;
    const Restored& what = fetched.restored;
    if (what.found) options.on_restore({what.id, what.bytes, what.skipped});
    return fetched.restored;
}

// ---- our own thread

void CheckpointSync::Impl::run(const std::stop_token& stop) {
    be_humble();
    Pace pace;
    pace.touched = pace.not_before = clock.monotonic();
    const int fd = watch.with([](const FolderWatch& folder) { return folder.fd(); });
    while (!stop.stop_requested()) {
        const bool waits = fd >= 0 && watch.with([](const FolderWatch& f) { return f.works(); });
        // While the folder is being written to, one look per `quiet` is enough.
        if (waits && !pace.dirty)
            sys::wait(fd, sys::Readiness::readable, next_look(pace), stop);
        else
            sys::pause(next_look(pace), stop);
        if (stop.stop_requested()) return;
        observe(pace);
        if (const auto mode = due(pace)) attempt(pace, *mode, stop);
    }
}

void CheckpointSync::Impl::observe(Pace& pace) {
    FolderWatch::Seen seen = watch.with([](FolderWatch& folder) { return folder.take_seen(); });
    if (!watch.with([](const FolderWatch& folder) { return folder.works(); })) {
        auto scan = scan_folder(options.folder, [](const std::string&, const std::string&) {});
        if (scan != pace.scan) seen.touched = seen.closed = true;
        pace.scan = std::move(scan);
    }
    if (!seen.touched) return;
    pace.dirty = true;
    pace.touched = clock.monotonic();
    if (seen.closed && !pace.closed) pace.closed = pace.touched;
}

std::optional<CheckpointWriter::Mode> CheckpointSync::Impl::due(const Pace& pace) const {
    const Monotonic now = clock.monotonic();
    if (now < pace.not_before) return std::nullopt;
    if (pace.closed && now - *pace.closed >= options.patience)
        return CheckpointWriter::Mode::rather;
    const bool open = watch.with([](const FolderWatch& f) { return f.anything_open(); });
    if (pace.dirty && !open && now - pace.touched >= options.quiet)
        return CheckpointWriter::Mode::whole;
    if (!pace.dirty && pace.untidy) return CheckpointWriter::Mode::whole;
    return std::nullopt;
}

Deadline CheckpointSync::Impl::next_look(const Pace& pace) const {
    const bool works = watch.with([](const FolderWatch& f) { return f.works(); });
    const milliseconds usual = works ? milliseconds(3'600'000) : options.scan_every;
    if (!pace.dirty && !pace.untidy) return Deadline::in(usual);
    const Monotonic now = clock.monotonic();
    const Monotonic at =
        std::max({pace.touched + options.quiet, pace.not_before, now + options.quiet / 4});
    return Deadline::in(std::min<std::chrono::nanoseconds>(at - now, usual));
}

void CheckpointSync::Impl::attempt(Pace& pace, CheckpointWriter::Mode mode,
                                   const std::stop_token& stop) {
    std::stop_token halt;
    if (!try_turn(halt)) {
        pace.not_before = clock.monotonic() + options.quiet;
        return;
    }
    const Release release{turn};
    std::stop_source both;
    const std::stop_callback on_stop(stop, [&both] { both.request_stop(); });
    const std::stop_callback on_halt(halt, [&both] { both.request_stop(); });
    const auto done = capture([&] {
        after(pace, mode, writer.commit(mode, Deadline::never(), both.get_token()));
        if (!writer.is_tidy()) writer.tidy(Deadline::in(kLongestDelay), both.get_token());
        pace.backoff.reset();
        pace.complaint.clear();
    });
    pace.untidy = !writer.is_tidy();
    if (!done.ok()) failed(pace, done.error());
}

void CheckpointSync::Impl::after(Pace& pace, CheckpointWriter::Mode mode,
                                 CheckpointWriter::Outcome outcome) {
    using Outcome = CheckpointWriter::Outcome;
    const Monotonic now = clock.monotonic();
    if (outcome == Outcome::not_whole && mode == CheckpointWriter::Mode::whole) {
        pace.touched = now;
        if (!pace.closed) pace.closed = now;
        return;
    }
    // What was left out is closed one day, and the kernel tells; where it cannot, look again.
    const bool works = watch.with([](const FolderWatch& f) { return f.works(); });
    pace.dirty = !works && (outcome == Outcome::partly || outcome == Outcome::not_whole);
    pace.closed.reset();
    if (pace.dirty) {
        pace.closed = now;
        pace.not_before = now + options.patience;
    }
}

void CheckpointSync::Impl::failed(Pace& pace, const Error& error) {
    pace.dirty = true;
    pace.not_before = clock.monotonic() + options.quiet;
    if (error.code() == Code::cancelled) return;
    pace.not_before = clock.monotonic() + pace.backoff.next();
    if (pace.complaint == error.message()) return;
    pace.complaint = error.message();
    options.say(format("a checkpoint could not be stored, and is tried again: {}", error.what()));
}

// ---- the face

CheckpointSync::CheckpointSync(CheckpointOptions options, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), clock)) {}

CheckpointSync::~CheckpointSync() = default;

CheckpointSync::Restored CheckpointSync::restore(Deadline by, const std::stop_token& stop) {
    impl_->take_turn(by, stop);
    const Impl::Release release{impl_->turn};
    return impl_->fetch(std::nullopt, by, stop);
}

void CheckpointSync::start() {
    Impl& impl = *impl_;
    TY_ASSERT(impl.restored);
    impl.watch.with([](FolderWatch& folder) { folder.begin(); });
    impl.turn.with([](Impl::Turn& state) { state.paused = false; });
    impl.threads.start("checkpoint", [&impl](const std::stop_token& stop) { impl.run(stop); });
}

void CheckpointSync::brace() {
    impl_->watch.with([](FolderWatch& folder) { folder.brace(); });
}

void CheckpointSync::flush(Deadline by, const std::stop_token& stop) {
    if (!impl_->restored) return;  // nothing of ours lies there
    impl_->take_turn(by, stop);
    const Impl::Release release{impl_->turn};
    impl_->commit_all(by, stop);
}

void CheckpointSync::settle(std::int64_t generation, Deadline by, const std::stop_token& stop) {
    Impl& impl = *impl_;
    impl.turn.with([](Impl::Turn& state) { state.paused = true; });
    if (!impl.restored) return;
    in_context(format("generation {}", generation), [&] { flush(by, stop); });
    impl.settled = true;
}

CheckpointSync::Restored CheckpointSync::refresh(std::int64_t generation, Deadline by,
                                                 const std::stop_token& stop) {
    Impl& impl = *impl_;
    TY_ASSERT(impl.restored);
    Restored restored;
    {
        impl.take_turn(by, stop);
        const Impl::Release release{impl.turn};
        // What was not settled would be lost to the older checkpoint.
        if (!impl.settled) impl.commit_all(by, stop);
        restored = impl.fetch(generation, by, stop);
        impl.settled = false;
    }
    impl.turn.with([](Impl::Turn& state) { state.paused = false; });
    return restored;
}

}  // namespace ty::agent
