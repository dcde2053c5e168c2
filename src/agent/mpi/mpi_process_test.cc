// SPDX-License-Identifier: Apache-2.0
// The remote shell of MPI jobs for real: processes over loopback, and a whole job of two hosts
// where this machine has Open MPI. The test program is its own agent.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/mpi/mpi.h"
#include "agent/network/network_main.h"
#include "agent/sandbox/box.h"
#include "agent/script/distribution.h"
#include "agent/testing/job_run.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;
namespace fs = sys::fs;

namespace {

constexpr const char* kHost = "127.0.0.2";
constexpr const char* kBoth = "127.0.0.1,127.0.0.2";

std::string self() {
    static const std::string path = fs::read_symlink("/proc/self/exe").string();
    return path;
}

/// One of the three programs, with what it says.
class Program {
public:
    Program(std::vector<std::string> words, const std::string& port,
            const std::string& secret = "the job's", const std::string& who = "first")
        : child_(sys::Child::spawn(command(std::move(words), port, secret, who))) {
        pipe_.write.close();
    }

    /// Reads on until the text was there; what was said so far.
    std::string wait_for(const std::string& text) {
        const Deadline by = Deadline::in(60s);
        while (said_.find(text) == std::string::npos) {
            REQUIRE_MESSAGE(read_more(by), ("\"" + text + "\" is not in: " + said_));
        }
        return said_;
    }
    int end() {
        const auto exit = child_.wait(Deadline::in(60s));
        REQUIRE(exit.has_value());
        // What it started may live on and hold the pipe: nobody waits for that.
        while (sys::wait(pipe_.read.get(), sys::Readiness::readable, Deadline::in(0s)) ==
                   sys::Waited::ready &&
               read_more(Deadline::in(1s))) {
        }
        return exit->shell_code();
    }
    const std::string& said() const { return said_; }
    void signal(int number) { child_.signal(number); }
    /// As the end of a box: with all it started.
    void kill_family() { ::kill(-child_.pid(), SIGKILL); }

private:
    sys::Command command(std::vector<std::string> words, const std::string& port,
                         const std::string& secret, const std::string& who) {
        words.insert(words.begin(), self());
        const char* path = std::getenv("PATH");
        return {.argv = std::move(words),
                .env = std::vector<std::string>{std::string("PATH=") + (path ? path : "/bin"),
                                                "TRAINYARD_MPI_SECRET=" + secret,
                                                "TRAINYARD_MPI_PORT=" + port, "WHO=" + who},
                .cwd = "",
                .stdout_fd = pipe_.write.get(),
                .stderr_fd = pipe_.write.get(),
                .keep = {},
                .session = sys::Command::Session::own};
    }
    bool read_more(Deadline by) {
        if (sys::wait(pipe_.read.get(), sys::Readiness::readable, by) != sys::Waited::ready)
            return false;
        std::array<std::byte, 4096> buffer;
        const std::size_t got = sys::read_some(pipe_.read.get(), buffer);
        said_.append(reinterpret_cast<const char*>(buffer.data()), got);
        return got > 0;
    }

    sys::Pipe pipe_ = sys::make_pipe();
    std::string said_;
    sys::Child child_;
};

/// A host that serves at a free port.
struct Host {
    Program server{{"rsh-serve", kHost, "0", "0"}, "0", "the job's", "second"};
    std::string port = [this] {
        const std::string address = std::string(kHost) + ":";
        std::string text = server.wait_for("\n");
        text = text.substr(text.find(address) + address.size());
        return std::string(trim(text.substr(0, text.find('\n'))));
    }();

    Program mpi_run(const std::string& line) const {
        return Program({"mpi-run", kBoth, "1", "--", "/bin/sh", "-c", line}, port);
    }
    Program rsh(const std::string& line, const std::string& secret = "the job's") const {
        return Program({"rsh", "-x", kHost, line}, port, secret);
    }
};

constexpr const char* kUntilTerm = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done";

}  // namespace

TEST_CASE("commands run on the other host with its environment, and all hosts end alike") {
    Host host;
    Program run = host.mpi_run(self() + " rsh " + kHost +
                               " 'echo \"$WHO\" says $((1+1)); echo oops >&2; exit 7'; echo code "
                               "$?; exit 4");
    CHECK(run.end() == 4);
    CHECK(run.said().find("second says 2\n") != std::string::npos);
    CHECK(run.said().find("oops\n") != std::string::npos);
    CHECK(run.said().find("code 7\n") != std::string::npos);
    CHECK(host.server.end() == 4);
    CHECK(host.server.said().find("exit code 4 on the first host") != std::string::npos);
    Host good;
    CHECK(good.mpi_run("exit 0").end() == 0);
    CHECK(good.server.end() == 0);
}

TEST_CASE("all output arrives, however much it is") {
    const Host host;
    Program rsh = host.rsh("yes 0123456789abcde | head -c 1600000; echo; echo last");
    rsh.wait_for("last\n");
    CHECK(rsh.end() == 0);
    CHECK(rsh.said().size() == 1600000 + 6);
}

TEST_CASE("who does not know the secret is refused") {
    const sys::TempDir dir;
    Host host;
    Program stranger = host.rsh("touch " + (dir.path() / "done").string(), "another");
    CHECK(stranger.end() == 255);
    CHECK(stranger.said().find("does not know the secret") != std::string::npos);
    CHECK_FALSE(fs::exists(dir.path() / "done"));
    // Nor can it take the place of the first host.
    Program master({"mpi-run", kBoth, "1", "--", "true"}, host.port, "another");
    CHECK(master.end() == 1);
    CHECK(host.mpi_run("exit 0").end() == 0);
    CHECK(host.server.end() == 0);
}

TEST_CASE("the end of the first host is the end of the others") {
    Host host;
    Program run = host.mpi_run("echo up; exec sleep 600");
    run.wait_for("up");
    run.kill_family();
    CHECK(host.server.end() == 1);
    CHECK(host.server.said().find("gone without a word") != std::string::npos);
}

TEST_CASE("a host that is lost ends mpirun") {
    Host host;
    Program run = host.mpi_run(kUntilTerm);
    run.wait_for("up");
    host.server.kill_family();
    CHECK(run.end() == 9);
    CHECK(run.said().find("host 127.0.0.2 is gone") != std::string::npos);
}

TEST_CASE("SIGTERM goes to mpirun, and the other hosts wait for what it makes of it") {
    Host host;
    Program run = host.mpi_run(kUntilTerm);
    run.wait_for("up");
    host.server.signal(SIGTERM);
    run.signal(SIGTERM);
    CHECK(run.end() == 9);
    CHECK(host.server.end() == 9);
    // Before there is a first host there is nothing to wait for.
    Host early;
    early.server.signal(SIGTERM);
    CHECK(early.server.end() == 143);
}

TEST_CASE("a command whose caller is gone gets SIGTERM") {
    const sys::TempDir dir;
    const fs::path note = dir.path() / "note";
    const Host host;
    Program rsh = host.rsh("trap 'echo bye > " + note.string() +
                           "; exit' TERM; echo up; while :; do sleep 0.05; done");
    rsh.wait_for("up");
    rsh.kill_family();
    const Deadline by = Deadline::in(30s);
    while (!fs::exists(note) && !by.passed()) sys::pause(Deadline::in(10ms), {});
    CHECK(fs::exists(note));
}

TEST_CASE("nothing happens outside of an MPI job") {
    Program run({"rsh", kHost, "true"}, "", "");
    CHECK(run.end() == 255);
    CHECK(run.said().find("TRAINYARD_MPI_SECRET") != std::string::npos);
}

TEST_CASE("a job of two hosts runs under one mpirun") {
    if (!has_namespaces() || !fs::exists("/usr/bin/python3")) return;
    const char* path = std::getenv("PATH");
    if (path == nullptr || !is_on_path("mpirun", path)) {
        MESSAGE("skipped: no mpirun on this machine");
        return;
    }
    JobRun job;
    job.daemon.plan.hosts = {"algo-1", "algo-2"};
    job.daemon.plan.environment.python = "/usr/bin/python3";
    job.daemon.plan.variables = {{"ASAN_OPTIONS", "detect_leaks=0"}};
    job.daemon.plan.hyperparameters = {{"sagemaker_mpi_enabled", "true"},
                                       {"sagemaker_mpi_num_of_processes_per_host", "2"},
                                       {"word", "\"two words\""}};
    bool fails = false;
    SUBCASE("that completes") {}
    SUBCASE("of which one process fails") {
        fails = true;
    }
    job.source({{"train.py", std::string("import os, sys\n"
                                         "e = os.environ\n"
                                         "sys.stdout.write('rank %s of %s on %s %s\\n' % ("
                                         "e['OMPI_COMM_WORLD_RANK'], e['OMPI_COMM_WORLD_SIZE'], "
                                         "e['SM_CURRENT_HOST'], sys.argv[1:]))\n"
                                         "sys.stdout.flush()\n") +
                                 (fails ? "if e['OMPI_COMM_WORLD_RANK'] == '3': raise "
                                          "ValueError('bad luck')\n"
                                        : "")}},
               "train.py");
    if (!job.connect(2)) return;
    job.start("algo-1");
    job.start("algo-2");
    if (fails) {
        const auto failed = job.daemon.wait_for<plan::Finished>("algo-1");
        REQUIRE(failed.has_value());
        CHECK(failed->outcome.kind == plan::Outcome::Kind::failed);
        CHECK(failed->outcome.reason.find("ErrorMessage \"ValueError: bad luck\"") !=
              std::string::npos);
        CHECK_FALSE(job.daemon.finished("algo-2").has_value());
        job.daemon.command(plan::Stop{10s}, "algo-2");
        REQUIRE(job.daemon.wait_for<plan::Collected>("algo-2").has_value());
        job.daemon.command(plan::Finish{}, "algo-1");
        job.daemon.command(plan::Finish{}, "algo-2");
        CHECK(job.wait("algo-2").outcome.kind == plan::Outcome::Kind::stopped);
        return;
    }
    for (const char* node : {"algo-1", "algo-2"}) {
        REQUIRE(job.daemon.wait_for<plan::Collected>(node).has_value());
        job.daemon.command(plan::Finish{}, node);
    }
    CHECK(job.wait("algo-1").outcome.kind == plan::Outcome::Kind::completed);
    CHECK(job.wait("algo-2").outcome.kind == plan::Outcome::Kind::completed);
    for (const char* text :
         {"[1,mpirank:0,algo-1]<stdout>:rank 0 of 4 on algo-1", "rank 1 of 4 on algo-1",
          "rank 2 of 4 on algo-2", "[1,mpirank:3,algo-2]<stdout>:rank 3 of 4 on algo-2",
          "['--word', 'two words']"})
        CHECK_MESSAGE(job.daemon.has_line(text, "algo-1"), text);
}

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const std::string verb = words.empty() ? "" : words[0];
    const auto rest = [&] { return std::vector(words.begin() + 1, words.end()); };
    if (verb == "box") leave(words.size() == 2 ? box_probe_main() : box_main());
    if (verb == "network" && words.size() == 2) return network_main(words[1]);
    if (verb == "mpi-run") return mpi_run_main(rest());
    if (verb == "rsh-serve") return rsh_serve_main(rest());
    if (verb == "rsh") return rsh_main(rest());
    ::unsetenv("TRAINYARD_CACHE");
    ::unsetenv("TRAINYARD_LOCK_FD");
    return doctest::Context(argc, argv).run();
}
