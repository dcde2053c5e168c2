// SPDX-License-Identifier: Apache-2.0
#include "agent/uplink.h"

#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/sys.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kHold = 20s;      ///< how long the daemon may keep a call open
constexpr milliseconds kPatience = 35s;  ///< for one call, the hold included
constexpr milliseconds kPace = 250ms;    ///< between calls that brought nothing

bool is_finished(const plan::Event& event) {
    return std::holds_alternative<plan::Finished>(event.payload);
}

}  // namespace

EventSpool::EventSpool(const sys::fs::path& path) : path_(path) {
    std::size_t good = 0;
    if (sys::fs::exists(path)) {
        const std::string text = sys::read_file(path);
        for (std::size_t end; (end = text.find('\n', good)) != std::string::npos; good = end + 1) {
            // A line that does not parse was torn by a crash; nothing after it can have been acted
            // on.
            Result<plan::Event> event = capture([&] {
                return plan::event_from_json(std::string_view(text).substr(good, end - good));
            });
            if (!event.ok()) break;
            loaded_.push_back(std::move(event).value());
        }
    }
    file_ = sys::open_write(path, O_APPEND, 0600);
    if (::ftruncate(file_.get(), static_cast<off_t>(good)) != 0)
        throw_errno("shorten {}", path.string());
}

void EventSpool::append(const plan::Event& event) {
    sys::write_all(file_.get(), plan::to_json(event) + "\n");
    // A process that dies loses nothing it wrote; only a machine that dies could, and then the run
    // is lost as well. The end is worth a sync.
    if (is_finished(event)) sys::sync_data(file_.get());
}

bool EventSpool::has_finished() const {
    return std::ranges::any_of(loaded_, is_finished);
}

Uplink::Uplink(const Start& start, const sys::fs::path& events, const Clock& clock,
               Callbacks callbacks)
    : start_(start), clock_(clock), callbacks_(std::move(callbacks)), state_(events) {
    earlier_ = state_.with([](State& state) {
        state.unsent = state.spool.loaded();
        if (state.unsent.empty()) return Earlier::none;
        state.last_seq = state.unsent.back().seq;
        return state.spool.has_finished() ? Earlier::finished : Earlier::unfinished;
    });
    tasks_.start("events", [this](const std::stop_token& stop) { event_loop(stop); });
    tasks_.start("commands", [this](const std::stop_token& stop) { command_loop(stop); });
}

Uplink::~Uplink() {
    tasks_.stop_and_join();
}

void Uplink::emit(plan::Payload payload) {
    state_.with([&](State& state) {
        plan::Event event;
        event.seq = ++state.last_seq;
        event.time = clock_.now();
        event.host = start_.host;
        event.payload = std::move(payload);
        try {
            state.spool.append(event);
        } catch (const Error& error) {
            // A full disk must not silence the job: the event lives in memory then.
            log::warning("event not kept on disk", {{"error", error.what()}});
        }
        state.unsent.push_back(std::move(event));
    });
    state_.notify();
}

bool Uplink::flush(Deadline by, const std::stop_token& stop) {
    return state_.wait(
        by, stop,
        [](const State& state) { return state.gone || state.acknowledged >= state.last_seq; },
        [](const State& state) { return !state.gone && state.acknowledged >= state.last_seq; });
}

void Uplink::event_loop(const std::stop_token& stop) {
    ControlPlane daemon(start_);
    for (;;) {
        plan::SyncRequest request;
        request.host = start_.host;
        state_.wait(
            Deadline::never(), stop,
            [](const State& state) { return !state.unsent.empty() || state.gone; },
            [&](const State& state) {
                request.events = state.unsent;
                request.commands_seen = state.commands_seen;
            });
        if (stop.stop_requested() || request.events.empty()) return;
        if (exchange(daemon, request, stop) == Next::end) return;
    }
}

void Uplink::command_loop(const std::stop_token& stop) {
    ControlPlane daemon(start_);
    while (!stop.stop_requested()) {
        plan::SyncRequest request;
        request.host = start_.host;
        request.wait = kHold;
        request.commands_seen = state_.with([](const State& state) { return state.commands_seen; });
        if (exchange(daemon, request, stop) == Next::end) return;
    }
}

/// One call with everything that may come of it; a daemon that answers too eagerly or with nonsense
/// is not asked in a tight loop.
Uplink::Next Uplink::exchange(ControlPlane& daemon, const plan::SyncRequest& request,
                              const std::stop_token& stop) {
    const Monotonic asked = clock_.monotonic();
    Next next = Next::slow_down;
    try {
        next = take(daemon.call_patiently("POST", "sync", plan::to_json(request), kPatience, stop),
                    request.events.empty() ? 0 : request.events.back().seq);
    } catch (const Error& error) {
        if (error.code() == Code::cancelled) return Next::end;
        log::warning("answer of the control plane not understood", {{"error", error.what()}});
    }
    if (next == Next::slow_down && clock_.monotonic() - asked < kPace) {
        if (!sys::pause(Deadline::in(kPace), stop)) return Next::end;
    }
    return next;
}

Uplink::Next Uplink::take(const ControlPlane::Reply& reply, std::uint64_t sent) {
    plan::SyncReply answer;
    if (reply.verdict == ControlPlane::Verdict::gone) {
        answer.gone = true;
    } else {
        answer = plan::sync_reply_from_json(reply.body);
    }
    bool is_new = false;
    const bool arrived = state_.with([&](State& state) {
        state.gone = state.gone || answer.gone;
        state.acknowledged = std::max(state.acknowledged, answer.acknowledged);
        is_new = answer.command && answer.command_number > state.commands_seen;
        if (is_new) state.commands_seen = answer.command_number;
        std::erase_if(state.unsent,
                      [&](const plan::Event& event) { return event.seq <= state.acknowledged; });
        return sent > 0 && state.acknowledged >= sent;
    });
    state_.notify();
    if (answer.gone) {
        callbacks_.on_gone();
        return Next::end;
    }
    if (is_new) callbacks_.on_command(answer.command_number, *answer.command);
    return is_new || arrived ? Next::go_on : Next::slow_down;
}

}  // namespace ty::agent
