// SPDX-License-Identifier: Apache-2.0
// The guard and the launcher under it, killed at random moments; and main(), since this program is
// its own launcher: "role <name> …".
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/launcher/workers/guard.h"

#include "agent/launcher/workers/port_lease.h"
#include "agent/launcher/workers/process_tree.h"
#include "agent/launcher/workers/testing/family.h"
#include "agent/launcher/workers/workers.h"
#include "base/error.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;

namespace {

constexpr int kFamilyFd = 10;  ///< write end of the pipe, in launchers
constexpr int kWorkers = 2;

void tell(const std::string& line) {
    sys::write_all(kFamilyFd, line + "\n");
}

// ---- roles
// ---------------------------------------------------------------------------------------

/// A launcher as small as can be: two families; ends when told, or when its guard has died.
enum class Families { whole, plain };
int launch(Families families) {
    sys::SignalFd signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1, guard_died_signal()});
    tell(format("launcher {} in {}", ::getpid(), ::getpgrp()));
    sys::Poller poller;
    WorkerGroup group(poller, [](const WorkerEnd&) {});
    const std::string script = families == Families::whole ? kFamilyScript : "exec sleep 1000";
    std::vector<WorkerSpec> specs;
    for (int rank = 0; rank < kWorkers; ++rank) {
        specs.push_back({.local_rank = rank,
                         .argv = {"sh", "-c", script},
                         .env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
                         .stdout_fd = kFamilyFd});
    }
    group.start(specs, nullptr, "guarded");
    int got = 0;
    poller.add(signals.fd(), [&] {
        while (const int number = signals.next()) {
            if (number == SIGUSR1 || number == SIGHUP) {
                tell("got " + sys::signal_name(number));
            } else {
                got = number;
            }
        }
    });
    while (got == 0) poller.run_once(Deadline::in(60s), {});
    group.kill_all();
    kill_descendants(1s);
    return got == SIGTERM ? 42 : 43;
}

/// On a terminal of its own: read a line, then count the signals of Ctrl-C until SIGTERM.
int read_terminal() {
    sys::SignalFd signals({SIGTERM, SIGINT});
    tell(format("group {}", ::getpgrp() == ::getpgid(::getppid()) ? "shared" : "own"));
    std::array<std::byte, 64> line;
    const std::size_t got = sys::read_some(STDIN_FILENO, line);
    tell(format("read {}", got));
    int interrupts = 0;
    while (sys::wait(signals.fd(), sys::Readiness::readable, Deadline::in(20s)) ==
           sys::Waited::ready) {
        const int number = signals.next();
        if (number == SIGTERM) return interrupts;
        if (number == SIGINT && ++interrupts == 1) tell("interrupted");
    }
    return 99;
}

int on_terminal(const char* name) {
    if (::setsid() < 0) return 90;
    // The first terminal a session leader opens becomes its controlling one.
    const int terminal = ::open(name, O_RDWR);  // NOLINT(android-cloexec-open): it is dup2's source
    if (terminal < 0 || ::dup2(terminal, STDIN_FILENO) < 0) return 91;
    return run_guarded(read_terminal);
}

int hold_leases(int count) {
    std::vector<PortLease> leases;
    std::string text;
    for (int i = 0; i < count; ++i) {
        leases.emplace_back(20000, 32700);
        text += format("{}\n", leases.back().hold());
        sys::write_all(STDOUT_FILENO, std::exchange(text, {}));
    }
    std::array<std::byte, 1> byte;
    while (sys::read_some(STDIN_FILENO, byte) != 0) continue;
    return 0;
}

int play(const std::vector<std::string>& words) {
    const std::string& role = words.at(0);
    if (role == "guarded") return run_guarded([] { return launch(Families::whole); });
    if (role == "unguarded") return launch(Families::plain);
    if (role == "exit") return run_guarded([&] { return std::atoi(words.at(1).c_str()); });
    if (role == "crash") return run_guarded([] { return ::kill(::getpid(), SIGKILL); });
    if (role == "terminal") return on_terminal(words.at(1).c_str());
    if (role == "lease") return hold_leases(std::atoi(words.at(1).c_str()));
    return 98;
}

// ---- the tests' side
// -----------------------------------------------------------------------------

sys::Child start_role(const std::vector<std::string>& words, const FamilyPipe& family) {
    std::vector<std::string> argv = {"/proc/self/exe", "role"};
    argv.insert(argv.end(), words.begin(), words.end());
    // The guard says what killed the launcher, every time.
    const sys::Fd nowhere = sys::open_write("/dev/null", 0);
    return sys::Child::spawn({.argv = argv,
                              .stderr_fd = nowhere.get(),
                              .keep = {{family.write_end(), kFamilyFd}},
                              .session = sys::Command::Session::own});
}

/// The number after `word` in what the family has written.
pid_t number_after(const std::string& text, const std::string& word) {
    const std::size_t at = text.find(word + " ");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + word.size() + 1);
}

/// Guard, launcher and families, all up.
struct Job {
    FamilyPipe family;
    sys::Child guard = start_role({"guarded"}, family);
    Job() { family.close_write(); }
    bool up() { return family.wait_for_lines(1 + kWorkers * kFamilySize, 60s); }
    pid_t launcher() const { return number_after(family.text(), "launcher"); }
};

/// Some cases while everything starts, some once it runs.
milliseconds random_delay(std::mt19937& random, bool starting) {
    return milliseconds(random() % (starting ? 150 : 10));
}

}  // namespace

TEST_CASE("the exit code comes through the guard") {
    for (const int code : {0, 1, 77}) {
        const FamilyPipe family;
        sys::Child guard = start_role({"exit", std::to_string(code)}, family);
        CHECK(guard.wait(Deadline::in(20s))->code == code);
    }
}

TEST_CASE("a killed launcher is reported in one line and exit code 1") {
    const sys::Output output =
        sys::run({.argv = {"/proc/self/exe", "role", "crash"}}, Deadline::in(20s));
    CHECK(output.exit.code == 1);
    CHECK(output.text.find("was killed by SIGKILL; its workers were stopped\n") !=
          std::string::npos);
    CHECK(std::ranges::count(output.text, '\n') == 1);
}

TEST_CASE("signals are forwarded to the launcher, which leads its own process group") {
    Job job;
    REQUIRE(job.up());
    CHECK(job.launcher() == number_after(job.family.text(), "in"));
    CHECK(job.launcher() != job.guard.pid());
    job.guard.signal(SIGUSR1);
    CHECK(job.family.wait_for_lines(2 + kWorkers * kFamilySize, 20s));
    CHECK(job.family.text().find("got SIGUSR1") != std::string::npos);
    ::kill(-job.guard.pid(), SIGTERM);
    CHECK(job.guard.wait(Deadline::in(20s))->code == 42);
    CHECK(job.family.all_gone(1s));
}

TEST_CASE("a launcher killed at any moment leaves nobody") {
    std::mt19937 random(20260131);
    for (int round = 0; round < 24; ++round) {
        CAPTURE(round);
        Job job;
        if (round % 2 == 0) {
            REQUIRE(job.up());
        } else {
            REQUIRE(job.family.wait_for_lines(1, 60s));
        }
        sys::pause(Deadline::in(random_delay(random, round % 2 == 1)), {});
        ::kill(job.launcher(), SIGKILL);
        CHECK(job.family.all_gone(1s));
        CHECK(job.guard.wait(Deadline::in(20s))->code == 1);
    }
}

TEST_CASE("a guard killed at any moment leaves nobody") {
    std::mt19937 random(20260201);
    for (int round = 0; round < 24; ++round) {
        CAPTURE(round);
        Job job;
        if (round % 2 == 0) REQUIRE(job.up());
        sys::pause(Deadline::in(random_delay(random, round % 2 == 1)), {});
        if (round % 4 < 2) {
            job.guard.signal(SIGKILL);
        } else {
            ::kill(-job.guard.pid(), SIGKILL);  // the whole group, as a shell or scheduler does
        }
        CHECK(job.family.all_gone(1s));
    }
}

TEST_CASE("a stopped guard holds nothing up") {
    Job job;
    REQUIRE(job.up());
    job.guard.signal(SIGSTOP);
    ::kill(job.launcher(), SIGTERM);
    const Deadline by = Deadline::in(20s);
    const auto ended = [&] {
        const auto line = read_process_line(job.launcher());
        return line && line->state == 'Z';
    };
    while (!ended() && !by.passed()) sys::pause(Deadline::in(1ms), {});
    CHECK(ended());
    job.guard.signal(SIGCONT);
    CHECK(job.guard.wait(Deadline::in(20s))->code == 42);
    CHECK(job.family.all_gone(1s));
}

TEST_CASE("what the caller had started before is left alone") {
    const FamilyPipe family;
    FamilyPipe earlier;
    const std::string self = sys::fs::read_symlink("/proc/self/exe").string();
    sys::Child shell = sys::Child::spawn(
        {.argv = {"sh", "-c", "sleep 1000 >&9 & echo $! >&9; exec \"$0\" role exit 5", self},
         .keep = {{family.write_end(), kFamilyFd}, {earlier.write_end(), 9}}});
    earlier.close_write();
    CHECK(shell.wait(Deadline::in(20s))->code == 5);
    REQUIRE(earlier.wait_for_lines(1, 20s));
    const pid_t monitor = std::atoi(earlier.text().c_str());
    CHECK(!earlier.all_gone(0ms));
    ::kill(monitor, SIGKILL);
    CHECK(earlier.all_gone(20s));
}

TEST_CASE("workers of a launcher without a guard die with it") {
    for (int round = 0; round < 5; ++round) {
        FamilyPipe family;
        sys::Child launcher = start_role({"unguarded"}, family);
        family.close_write();
        REQUIRE(family.wait_for_lines(1, 60s));
        launcher.signal(SIGKILL);
        CHECK(family.all_gone(1s));
    }
}

TEST_CASE("a terminal stays usable under the guard") {
    const sys::Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!terminal.is_open() || ::grantpt(terminal.get()) != 0 || ::unlockpt(terminal.get()) != 0) {
        MESSAGE("skipped: no pseudo-terminals here");
        return;
    }
    FamilyPipe family;
    std::array<char, 128> name = {};
    REQUIRE(::ptsname_r(terminal.get(), name.data(), name.size()) == 0);
    sys::Child guard =
        sys::Child::spawn({.argv = {"/proc/self/exe", "role", "terminal", name.data()},
                           .keep = {{family.write_end(), kFamilyFd}}});
    family.close_write();
    REQUIRE(family.wait_for_lines(1, 20s));
    CHECK(family.text() == "group shared\n");
    sys::write_all(terminal.get(), "hello\n");
    REQUIRE(family.wait_for_lines(2, 20s));
    CHECK(family.text().ends_with("read 6\n"));
    sys::write_all(terminal.get(), "\x03");
    REQUIRE(family.wait_for_lines(3, 20s));
    guard.signal(SIGTERM);
    CHECK(guard.wait(Deadline::in(20s))->code == 1);  // one Ctrl-C is one SIGINT
}

TEST_CASE("two launchers never hold the same port") {
    std::set<std::string> ports;
    std::vector<sys::Child> holders;
    std::vector<sys::Pipe> keep;
    FamilyPipe family;
    for (int i = 0; i < 2; ++i) {
        keep.push_back(sys::make_pipe());
        holders.push_back(sys::Child::spawn({.argv = {"/proc/self/exe", "role", "lease", "200"},
                                             .stdin_fd = keep.back().read.get(),
                                             .stdout_fd = family.write_end()}));
    }
    family.close_write();
    REQUIRE(family.wait_for_lines(400, 60s));
    for (const std::string& line : split(family.text(), '\n')) {
        if (!line.empty()) ports.insert(line);
    }
    CHECK(ports.size() == 400);
    keep.clear();
    for (sys::Child& holder : holders) CHECK(holder.wait(Deadline::in(20s))->ok());
}

TEST_CASE("a leased port is nobody else's until it is released") {
    PortLease lease(20000, 32700);
    const int port = lease.hold();
    CHECK(lease.hold() == port);
    CHECK(lease.held() == port);
    CHECK(PortLease(port, port).held() == 0);
    CHECK_THROWS_AS(PortLease(port, port).hold(), Error);
    CHECK(lease.release() == port);
    CHECK(lease.held() == 0);
    CHECK(lease.hold() != port);
    PortLease wanting(20000, 32700);
    CHECK(wanting.hold(port) == port);
    CHECK(wanting.release() == port);

    const sys::Fd listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener.is_open()) return;
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        MESSAGE("skipped in part: no IPv6 here");
        return;
    }
    REQUIRE(::listen(listener.get(), 1) == 0);
    CHECK(port_is_taken(port));
    CHECK_THROWS_AS(PortLease(port, port).hold(), Error);
}

int main(int argc, char** argv) {
    if (argc > 2 && std::string_view(argv[1]) == "role")
        return play(std::vector<std::string>(argv + 2, argv + argc));
    // As the launcher: what the workers' families lose comes to us.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    doctest::Context context(argc, argv);
    return context.run();
}
