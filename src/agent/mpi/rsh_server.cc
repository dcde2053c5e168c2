// SPDX-License-Identifier: Apache-2.0
// The server's side of our remote shell: one thread accepts, one serves each caller, and main waits
// for the word of mpi-run on the first host, whose life ends ours.
#include "agent/mpi/mpi.h"
#include "agent/mpi/rsh_link.h"
#include "base/error.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/text.h"

#include <array>
#include <csignal>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kHandshake = 10s;
constexpr milliseconds kWrite = 60s;  ///< mpirun takes the output sooner, or is not well
constexpr milliseconds kLeave = 2s;   ///< for a command whose caller is gone
/// The toolkit's patience: the other host may still download its data.
constexpr milliseconds kMeet = 3600s;
constexpr std::size_t kMostCallers = 200;
constexpr milliseconds kHeadStart = 30s;

void say(const std::string& text) {
    sys::write_all(2, "trainyard-agent rsh-serve: " + text + "\n");
}

/// A command line of the caller's, from start to end.
class Session {
public:
    Session(RshLink& link, const std::string& line)
        : link_(link), child_(sys::Child::spawn(command(line))) {
        for (Stream* stream : {&out_, &error_}) {
            stream->pipe.write.close();
            ::fcntl(stream->pipe.read.get(), F_SETFL, O_NONBLOCK);
        }
    }

    void run(const std::stop_token& stop) {
        poller_.add(child_.pidfd(), [this] {
            poller_.remove(child_.pidfd());
            exit_ = child_.try_wait();
        });
        poller_.add(link_.fd(), [this] { gone_ = true; });  // a caller has nothing more to say
        for (Stream* stream : {&out_, &error_}) {
            poller_.add(stream->pipe.read.get(), [this, stream, &stop] { forward(*stream, stop); });
        }
        while (!exit_ && !gone_ && poller_.run_once(Deadline::never(), stop)) {
        }
        if (!exit_) return abandon();
        // What it left running may hold the pipes open for ever: only what is in them now counts.
        for (Stream* stream : {&out_, &error_}) {
            while (forward(*stream, stop)) {
            }
        }
        link_.send("x" + std::to_string(exit_->shell_code()), Deadline::in(kWrite), stop);
    }

private:
    struct Stream {
        char kind;
        sys::Pipe pipe = sys::make_pipe();
        bool open = true;
    };

    sys::Command command(const std::string& line) {
        return {.argv = {"/bin/sh", "-c", line},
                .env = std::nullopt,
                .cwd = "",
                .stdout_fd = out_.pipe.write.get(),
                .stderr_fd = error_.pipe.write.get(),
                .keep = {},
                .session = sys::Command::Session::own};
    }

    /// False when there is nothing more for now.
    bool forward(Stream& stream, const std::stop_token& stop) {
        if (!stream.open) return false;
        std::array<char, 16384> buffer;
        buffer[0] = stream.kind;
        const ssize_t got = ::read(stream.pipe.read.get(), buffer.data() + 1, buffer.size() - 1);
        if (got < 0) return errno == EINTR;
        if (got == 0) {
            stream.open = false;
            poller_.remove(stream.pipe.read.get());
            return false;
        }
        link_.send({buffer.data(), static_cast<std::size_t>(got) + 1}, Deadline::in(kWrite), stop);
        return true;
    }

    void abandon() {
        ::kill(-child_.pid(), SIGTERM);
        (void)child_.wait(Deadline::in(kLeave));
        ::kill(-child_.pid(), SIGKILL);
    }

    RshLink& link_;
    Stream out_{'o'}, error_{'e'};
    sys::Child child_;
    sys::Poller poller_;
    std::optional<sys::Exit> exit_;
    bool gone_ = false;
};

class Server {
public:
    Server(RshAddress own, milliseconds head_start)
        : own_(std::move(own)),
          head_start_(head_start),
          signals_({SIGTERM, SIGINT}),
          listener_(sys::Listener::tcp(own_.host, own_.port)) {}

    int run() {
        say(format("waiting for mpirun at {}:{}", own_.host, listener_.port()));
        tasks_.start("rsh-accept", [this](const std::stop_token& stop) { accept(stop); });
        poller_.add(signals_.fd(), [this] { on_signal(); });
        poller_.add(wake_.fd(), [this] {
            wake_.drain();
            look();
        });
        poller_.set_timer("meet", Deadline::in(kMeet), [this] {
            say("mpirun of the first host never came; see its log");
            code_ = 1;
        });
        while (!code_) poller_.run_once(Deadline::never(), {});
        tasks_.stop_and_join();
        return *code_;
    }

private:
    struct State {
        bool watched = false;
        std::optional<int> verdict;
        std::string why;
    };

    // ---- main thread

    void on_signal() {
        signals_.next();
        const State now = state_.with([](const State& state) { return state; });
        // The first host got the same signal, and mpirun ends our processes in good order.
        if (now.watched && !now.verdict) return;
        code_ = now.verdict.value_or(128 + SIGTERM);
    }

    void look() {
        const State now = state_.with([](const State& state) { return state; });
        if (now.watched) poller_.cancel_timer("meet");
        if (!now.verdict) return;
        if (*now.verdict == 0) {
            code_ = 0;
            return;
        }
        say(now.why);
        poller_.set_timer("head start", Deadline::in(head_start_),
                          [this, code = *now.verdict] { code_ = code; });
    }

    // ---- threads of callers

    void accept(const std::stop_token& stop) {
        while (std::optional<sys::Socket> socket = listener_.accept(stop)) {
            if (tasks_.running() > kMostCallers) continue;
            auto shared = std::make_shared<sys::Socket>(std::move(*socket));
            tasks_.start("rsh-caller", [this, shared](const std::stop_token& caller_stop) {
                const Result<std::monostate> done =
                    capture([&] { serve(std::move(*shared), caller_stop); });
                if (!done.ok() && done.error().code() != Code::cancelled) say(done.error().what());
            });
        }
    }

    void serve(sys::Socket socket, const std::stop_token& stop) {
        RshLink link(std::move(socket));
        const RshRequest request = rsh_answer(link, own_.secret, Deadline::in(kHandshake), stop);
        if (request.verb == "run") {
            link.send("ok", Deadline::in(kWrite), stop);
            Session(link, request.body).run(stop);
        } else if (request.verb == "watch" && take_watch()) {
            watch(link, stop);
        } else {
            link.send(format("\"{}\" cannot be had", request.verb), Deadline::in(kWrite), stop);
        }
    }

    bool take_watch() {
        const bool first =
            state_.with([](State& state) { return !std::exchange(state.watched, true); });
        wake_.notify();
        return first;
    }

    void watch(RshLink& link, const std::stop_token& stop) {
        const Result<std::optional<std::string>> word = capture([&] {
            link.send("ok", Deadline::in(kWrite), stop);
            return link.receive(Deadline::never(), stop);
        });
        if (stop.stop_requested()) return;
        std::optional<long long> code;
        if (word.ok()) {
            const auto frame = Result<std::optional<std::string>>(word).value();
            if (frame && frame->starts_with("done ")) code = parse_int(frame->substr(5));
        }
        state_.with([&](State& state) {
            state.verdict = static_cast<int>(code.value_or(1));
            state.why = code ? format("mpirun ended with exit code {} on the first host", *code)
                             : "mpirun's host is gone without a word";
        });
        wake_.notify();
    }

    const RshAddress own_;
    const milliseconds head_start_;
    sys::SignalFd signals_;  ///< before any thread starts
    sys::Listener listener_;
    sys::Poller poller_;
    sys::WakeFd wake_;
    std::optional<int> code_;
    Sync<State> state_;
    TaskGroup tasks_;  ///< last: its threads use the rest
};

}  // namespace

int rsh_serve_main(const std::vector<std::string>& words) {
    const auto port = words.size() >= 2 ? parse_int(words[1]) : std::nullopt;
    const auto wait = words.size() == 3 ? parse_int(words[2]) : kHeadStart.count();
    if (words.size() < 2 || words.size() > 3 || !port || *port < 0 || *port > 65535 || !wait ||
        *wait < 0) {
        sys::write_all(2, "usage: trainyard-agent rsh-serve <host> <port> [milliseconds]\n");
        return 2;
    }
    sys::ignore_sigpipe();
    const Result<int> code = capture([&] {
        RshAddress own = rsh_address(words[0]);
        own.port = static_cast<std::uint16_t>(*port);
        return Server(std::move(own), milliseconds(*wait)).run();
    });
    if (code.ok()) return Result<int>(code).value();
    say(code.error().what());
    return 1;
}

}  // namespace ty::agent
