// SPDX-License-Identifier: Apache-2.0
// The program of an MPI job's first host: mpirun, between the arrival of the other hosts and the
// word to them that it is over.
#include "agent/mpi/mpi.h"
#include "agent/mpi/rank_lines.h"
#include "agent/mpi/rsh_link.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <span>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kAttempt = 10s;
constexpr milliseconds kBetween = 200ms;
/// The toolkit's patience: another host may still download its data.
constexpr milliseconds kMeet = 3600s;
constexpr milliseconds kGrace = 10s;  ///< of mpirun when a host is gone
constexpr milliseconds kDismiss = 5s;

void say(const std::string& text) {
    sys::write_all(2, "trainyard-agent mpi-run: " + text + "\n");
}

class MpiRun {
public:
    MpiRun(std::vector<std::string> hosts, int processes, std::vector<std::string> command)
        : hosts_(std::move(hosts)),
          processes_(processes),
          command_(std::move(command)),
          signals_({SIGTERM, SIGINT}) {}

    int run() {
        const Result<int> code = capture([this] { return meet_and_run(); });
        if (!code.ok()) say(code.error().what());
        const int verdict = code.ok() ? Result<int>(code).value() : 1;
        for (auto& [host, link] : links_) {
            // One that is gone needs no word.
            (void)capture([&] { link.send(format("done {}", verdict), Deadline::in(kDismiss)); });
        }
        return verdict;
    }

private:
    struct Stream {
        Stream(const MpiRun& run, int to)
            : lines(run.hosts_, run.processes_,
                    [to](std::string_view line) { sys::write_all(to, line); }) {
            ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
        }
        /// False when there is nothing more for now.
        bool forward() {
            if (!open) return false;
            std::array<char, 16384> buffer;
            const ssize_t got = ::read(pipe.read.get(), buffer.data(), buffer.size());
            if (got < 0) return errno == EINTR;
            open = got > 0;
            lines.add({buffer.data(), static_cast<std::size_t>(got)});
            return open;
        }
        sys::Pipe pipe = sys::make_pipe();
        RankLines lines;
        bool open = true;
    };

    int meet_and_run() {
        const Deadline by = Deadline::in(kMeet);
        for (const std::string& host : std::span(hosts_).subspan(1)) {
            if (!meet(host, by)) return 128 + signals_.next();
        }
        return run_command();
    }

    /// False: a signal came first.
    bool meet(const std::string& host, Deadline by) {
        const RshAddress address = rsh_address(host);
        while (true) {
            Result<RshLink> link = capture([&] {
                return rsh_call(address, {"watch", ""}, Deadline::in(kAttempt));
            });
            if (link.ok()) {
                links_.emplace(host, std::move(link).value());
                return true;
            }
            if (link.error().code() == Code::denied) throw Error(link.error());
            if (by.passed()) {
                throw_error(
                    Code::timed_out, "NoHost", "host {} did not come within {} s ({}); see its log",
                    host, std::chrono::duration_cast<seconds>(kMeet).count(), link.error().what());
            }
            const sys::Waited waited =
                sys::wait(signals_.fd(), sys::Readiness::readable, Deadline::in(kBetween));
            if (waited == sys::Waited::ready) return false;
        }
    }

    int run_command() {
        Stream out(*this, 1);
        Stream error(*this, 2);
        sys::Child child = sys::Child::spawn({.argv = command_,
                                              .env = std::nullopt,
                                              .cwd = "",
                                              .stdout_fd = out.pipe.write.get(),
                                              .stderr_fd = error.pipe.write.get(),
                                              .keep = {}});
        sys::Poller poller;
        for (Stream* stream : {&out, &error}) {
            stream->pipe.write.close();
            poller.add(stream->pipe.read.get(), [&poller, stream] {
                if (!stream->forward() && !stream->open) poller.remove(stream->pipe.read.get());
            });
        }
        std::optional<sys::Exit> exit;
        bool lost = false;
        poller.add(child.pidfd(), [&] {
            poller.remove(child.pidfd());
            exit = child.try_wait();
        });
        poller.add(signals_.fd(), [&] {
            if (const int number = signals_.next()) child.signal(number);
        });
        for (const auto& [host, link] : links_) {
            // Nothing is ever said here but the end.
            poller.add(link.fd(), [&, fd = link.fd(), name = host] {
                poller.remove(fd);
                say(format("host {} is gone", name));
                lost = true;
                child.signal(SIGTERM);
                poller.set_timer("grace", Deadline::in(kGrace), [&] { child.signal(SIGKILL); });
            });
        }
        while (!exit) poller.run_once(Deadline::never(), {});
        // What it left running may hold the pipes open: only what is in them now counts.
        for (Stream* stream : {&out, &error}) {
            while (stream->forward()) {
            }
            stream->lines.finish();
        }
        return lost && exit->ok() ? 1 : exit->shell_code();
    }

    const std::vector<std::string> hosts_;  ///< ours first
    const int processes_;                   ///< on each of them
    const std::vector<std::string> command_;
    sys::SignalFd signals_;
    std::map<std::string, RshLink> links_;
};

}  // namespace

int mpi_run_main(const std::vector<std::string>& words) {
    const auto processes = words.size() > 3 ? parse_int(words[1]) : std::nullopt;
    if (!processes || *processes < 1 || *processes > 4096 || words[2] != "--") {
        sys::write_all(
            2, "usage: trainyard-agent mpi-run <host,host,...> <processes> -- command...\n");
        return 2;
    }
    sys::ignore_sigpipe();
    return MpiRun(split(words[0], ','), static_cast<int>(*processes),
                  {words.begin() + 3, words.end()})
        .run();
}

}  // namespace ty::agent
