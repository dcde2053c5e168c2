// SPDX-License-Identifier: Apache-2.0
#include "agent/shipping/log_pump.h"

#include "base/error.h"
#include "base/retry.h"
#include "base/text.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kChunk = 256u << 10;
constexpr int kPipeSize = 1 << 20;
constexpr std::size_t kTailKept = 64u << 10;
constexpr milliseconds kFirstGather = 4ms;  ///< between the first sends after a silence
constexpr milliseconds kLongestGather = 100ms;
constexpr milliseconds kPatience = 30s;

}  // namespace

LogPump::LogPump(const Start& start, const std::string& stream, sys::fs::path spool,
                 const Clock& clock, std::function<void()> on_gone)
    : clock_(clock),
      start_(start),
      stream_(percent_encode(stream)),
      on_gone_(std::move(on_gone)),
      pipe_(sys::make_pipe()),
      output_(std::move(spool)) {
    // A larger pipe lets a program print in bursts; the default does as well.
    (void)::fcntl(pipe_.read.get(), F_SETPIPE_SZ, kPipeSize);
    const int flags = ::fcntl(pipe_.read.get(), F_GETFL);
    if (flags < 0 || ::fcntl(pipe_.read.get(), F_SETFL, flags | O_NONBLOCK) < 0)
        throw_errno("prepare the log pipe");
    input_.with([](Input& input) { input.buffer.resize(kChunk); });
    tasks_.start("log-read", [this](const std::stop_token& stop) { read_loop(stop); });
    tasks_.start("log-send", [this](const std::stop_token& stop) { send_loop(stop); });
}

LogPump::~LogPump() {
    tasks_.stop_and_join();
}

void LogPump::say(std::string_view text) {
    const Instant now = clock_.now();
    output_.with([&](Output& output) {
        for (const std::string& line : split(text, '\n'))
            output.queue.add(now, "trainyard: " + to_valid_utf8(line));
    });
    output_.notify();
}

void LogPump::start_run() {
    input_.with([](Input& input) { input.tail.clear(); });
}

LogPump::Read LogPump::read_chunk(Input& input) {
    ssize_t got = 0;
    do {
        got = ::read(pipe_.read.get(), input.buffer.data(), input.buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return Read::none;
    if (got < 0) throw_errno("read the log pipe");
    if (got == 0) return Read::none;
    const std::string_view data(input.buffer.data(), static_cast<std::size_t>(got));
    if (input.tail.size() + data.size() > 4 * kTailKept) {
        input.tail.erase(0, input.tail.size() > kTailKept ? input.tail.size() - kTailKept : 0);
    }
    input.tail.append(data.size() > kTailKept ? data.substr(data.size() - kTailKept) : data);
    const Instant now = clock_.now();
    output_.with([&](Output& output) {
        input.cutter.feed(data, [&](std::string_view line) { output.queue.add(now, line); });
    });
    output_.notify();
    return Read::some;
}

Tail LogPump::finish_run() {
    const std::string text = input_.with([this](Input& input) {
        while (read_chunk(input) == Read::some) {
        }
        const Instant now = clock_.now();
        output_.with([&](Output& output) {
            input.cutter.flush([&](std::string_view line) { output.queue.add(now, line); });
        });
        return input.tail;
    });
    output_.notify();
    Tail tail;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        tail.add(rest.substr(0, end));
        if (end == std::string_view::npos) break;
        rest.remove_prefix(end + 1);
    }
    return tail;
}

void LogPump::read_loop(const std::stop_token& stop) {
    while (sys::wait(pipe_.read.get(), sys::Readiness::readable, Deadline::never(), stop) !=
           sys::Waited::stopped) {
        input_.with([this](Input& input) { return read_chunk(input); });
        // Only when neither daemon nor disk take the lines does the program have to wait.
        output_.wait(
            Deadline::never(), stop,
            [](const Output& output) { return output.gone || !output.queue.is_full(); },
            [](const Output&) {});
    }
}

void LogPump::send_loop(const std::stop_token& stop) {
    ControlPlane daemon(start_);
    Deadline next = Deadline::in(0ms);
    Backoff gather(kFirstGather, kLongestGather);
    for (;;) {
        const auto waits = [](const Output& output) { return !output.queue.empty(); };
        const bool silent = output_.with([](const Output& output) { return output.queue.empty(); });
        output_.wait(Deadline::never(), stop, waits, [](const Output&) {});
        if (silent && next.passed()) gather.reset();
        // The first lines after a silence go at once; the longer a program talks the more they
        // gather.
        output_.wait(
            next, stop,
            [](const Output& output) { return output.urgent || output.queue.has_full_batch(); },
            [](const Output&) {});
        if (stop.stop_requested()) return;
        const LogQueue::Batch batch =
            output_.with([](Output& output) { return output.queue.pop(); });
        next = Deadline::in(gather.next());
        if (!send(daemon, batch, stop)) return;
        output_.with([&](Output& output) {
            output.queue.release(batch);
            output.acknowledged = batch.first + batch.lines;
        });
        output_.notify();
    }
}

bool LogPump::send(ControlPlane& daemon, const LogQueue::Batch& batch,
                   const std::stop_token& stop) {
    const std::string what = format("logs?stream={}&first={}", stream_, batch.first);
    ControlPlane::Reply reply;
    try {
        reply = daemon.call_patiently("POST", what, batch.data, kPatience, stop);
    } catch (const Error& error) {
        if (error.code() != Code::cancelled) throw;
        return false;
    }
    if (reply.verdict == ControlPlane::Verdict::ok) return true;
    output_.with([](Output& output) { output.gone = true; });
    output_.notify();
    on_gone_();
    return false;
}

bool LogPump::flush(Deadline by, const std::stop_token& stop) {
    output_.with([](Output& output) { output.urgent = true; });
    output_.notify();
    const auto done = [](const Output& output) {
        return output.gone || output.acknowledged == output.queue.next_index();
    };
    const bool flushed = output_.wait(by, stop, done, done);
    output_.with([](Output& output) { output.urgent = false; });
    return flushed;
}

}  // namespace ty::agent
