// SPDX-License-Identifier: Apache-2.0
// The worker group with live processes. Who is still there is told by a pipe that every process of
// a family holds: end of file means that all are gone. The guard's cases and main() are in
// guard_process_test.cc.
#include "agent/launcher/workers/workers.h"

#include "agent/launcher/workers/process_tree.h"
#include "agent/launcher/workers/progress.h"
#include "agent/launcher/workers/testing/family.h"
#include "agent/launcher/workers/worker_cgroup.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;

namespace {

WorkerSpec shell(const std::string& text, int stdout_fd = -1, int local_rank = 0) {
    return {.local_rank = local_rank,
            .argv = {"sh", "-c", text},
            .env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
            .stdout_fd = stdout_fd};
}

/// A group, its poller, and what on_end has said.
struct Fixture {
    sys::Poller poller;
    std::vector<WorkerEnd> ends;
    FamilyPipe family;
    WorkerGroup group{poller, [this](const WorkerEnd& end) { ends.push_back(end); }};

    void start(const std::vector<WorkerSpec>& specs) { group.start(specs, nullptr, "test"); }
    void start(const std::string& text) { start({shell(text, family.write_end())}); }
    bool serve_until(const std::function<bool()>& done) {
        const Deadline by = Deadline::in(20s);
        while (!done() && !by.passed()) poller.run_once(Deadline::in(50ms), {});
        return done();
    }
    /// All there is on the pipe, until the last holder is gone.
    std::string output() {
        family.close_write();
        REQUIRE(serve_until([this] { return group.empty(); }));
        REQUIRE(family.all_gone(20s));
        return family.text();
    }
};

bool has(const std::string& program) {
    for (const char* folder : {"/usr/bin/", "/bin/"}) {
        if (::access((folder + program).c_str(), X_OK) == 0) return true;
    }
    MESSAGE("skipped: no " << program << " here");
    return false;
}

/// Groups of this process's workers that are still there.
int left_over_groups() {
    int count = 0;
    std::error_code error;
    const std::string prefix = format("trainyard-{}-", ::getpid());
    for (const auto& entry : sys::fs::directory_iterator(own_cgroup(), error)) {
        if (entry.path().filename().string().starts_with(prefix)) ++count;
    }
    return count;
}

/// A control group of version 1 whose members can be frozen: like uninterruptible sleep, a frozen
/// process does not take SIGKILL.
class Freezer {
public:
    Freezer() : folder_(format("/sys/fs/cgroup/freezer/trainyard-test-{}", ::getpid())) {
        made_ = ::mkdir(folder_.c_str(), 0755) == 0 && sys::fs::exists(folder_ / "freezer.state");
    }
    Freezer(const Freezer&) = delete;
    Freezer& operator=(const Freezer&) = delete;
    ~Freezer() {
        if (made_) set("THAWED");
        const Deadline by = Deadline::in(2s);
        while (::rmdir(folder_.c_str()) != 0 && errno == EBUSY && !by.passed())
            sys::pause(Deadline::in(5ms), {});
    }
    bool works() const { return made_; }
    bool put(pid_t pid) {
        return capture([&] { sys::write_file(folder_ / "cgroup.procs", std::to_string(pid)); })
            .ok();
    }
    void set(const std::string& state) {
        (void)capture([&] { sys::write_file(folder_ / "freezer.state", state); });
    }
    bool is_frozen() { return sys::read_file(folder_ / "freezer.state").starts_with("FROZEN"); }

private:
    sys::fs::path folder_;
    bool made_ = false;
};

}  // namespace

TEST_CASE("exit codes and signals are reported") {
    Fixture f;
    f.start({shell("exit 0", -1, 0), shell("exit 3", -1, 1), shell("kill -TERM $$", -1, 2)});
    CHECK(f.group.warm_starts() == 0);
    REQUIRE(f.serve_until([&] { return f.ends.size() == 3; }));
    std::ranges::sort(f.ends, {}, &WorkerEnd::local_rank);
    CHECK(f.ends[0].exit.ok());
    CHECK(f.ends[1].exit.code == 3);
    CHECK(f.ends[2].exit.signal == SIGTERM);
    CHECK(!f.ends[2].by_us);
    CHECK(f.group.empty());
}

TEST_CASE("a program that cannot be run is an error at once, with its name") {
    const sys::TempDir dir;
    const auto plain = dir.path() / "plain";
    sys::write_file(plain, "#!/bin/sh\n");
    const auto code_of = [](const WorkerSpec& spec) {
        const auto made = capture([&] { return spawn_worker(spec); });
        REQUIRE(!made.ok());
        CHECK(std::string(made.error().what()).find(spec.argv[0]) != std::string::npos);
        return made.error().code();
    };
    CHECK(code_of({.argv = {"no-such-program-here"}, .env = {"PATH=/usr/bin:/bin"}}) ==
          Code::not_found);
    CHECK(code_of({.argv = {"/no/such/program"}}) == Code::not_found);
    CHECK(code_of({.argv = {plain.string()}}) == Code::denied);
    // PATH is the worker's, not ours.
    CHECK(code_of({.argv = {"sh"}, .env = {"PATH=" + dir.path().string()}}) == Code::not_found);
}

TEST_CASE("a group that cannot be started whole is not started") {
    Fixture f;
    const WorkerSpec missing = {.local_rank = 1, .argv = {"/no/such/program"}};
    const std::vector<WorkerSpec> specs = {shell("exec sleep 1000", f.family.write_end()), missing};
    CHECK_THROWS_AS(f.start(specs), Error);
    CHECK(f.group.empty());
    f.family.close_write();
    CHECK(f.family.all_gone(1s));
    CHECK(f.ends.empty());
}

TEST_CASE("a worker has exactly the environment it is given") {
    Fixture f;
    f.start({{.argv = {"env"},
              .env = {"RANK=3", "PATH=/usr/bin:/bin", "EMPTY=", "LINES=a\nb"},
              .stdout_fd = f.family.write_end()}});
    CHECK(f.output() == "RANK=3\nPATH=/usr/bin:/bin\nEMPTY=\nLINES=a\nb\n");
}

TEST_CASE("a worker has default signals, the named descriptors and no other") {
    FamilyPipe family;
    const sys::Fd leaky(::fcntl(family.write_end(), F_DUPFD, 40));  // no close-on-exec
    sys::ignore_sigpipe();
    const sys::SignalFd blocked({SIGUSR1});
    const WorkerSpec spec =
        shell("cd /proc/self/fd; echo *; grep -E 'Sig(Blk|Ign)' /proc/self/status; echo over >&9",
              family.write_end());
    spawn_worker(spec, -1, {{family.write_end(), 9}, {0, 5}});
    family.close_write();
    const_cast<sys::Fd&>(leaky).close();
    CHECK(family.all_gone(20s));
    const std::vector<std::string> lines = split(family.text(), '\n');
    REQUIRE(lines.size() >= 4);
    // The shell lists the folder itself, through a descriptor of its own (3).
    CHECK(lines[0] == "0 1 2 3 5 9");
    CHECK(lines[1] == "SigBlk:\t0000000000000000");
    // The C library lets nobody touch 32 and 33, its own; whoever started us may have ignored them.
    REQUIRE(lines[2].starts_with("SigIgn:\t"));
    CHECK((std::stoull(lines[2].substr(8), nullptr, 16) & ~0x180000000ULL) == 0);
    CHECK(lines[3] == "over");
    kill_descendants(1s);
}

TEST_CASE("descriptors may be exchanged on the way to the worker") {
    FamilyPipe family;
    FamilyPipe other;
    spawn_worker(shell("echo one; echo five >&5; echo seven >&7", family.write_end()), -1,
                 {{other.write_end(), 7}, {family.write_end(), 5}});
    family.close_write();
    other.close_write();
    CHECK(family.all_gone(20s));
    CHECK(other.all_gone(20s));
    CHECK(family.text() == "one\nfive\n");
    CHECK(other.text() == "seven\n");
    kill_descendants(1s);
}

TEST_CASE("a worker is bound to its processors") {
    Fixture f;
    WorkerSpec spec = shell("grep Cpus_allowed_list /proc/self/status", f.family.write_end());
    spec.cpus = {0};
    f.start({spec});
    CHECK(f.output() == "Cpus_allowed_list:\t0\n");
    spec.cpus = {4095};
    CHECK_THROWS_AS(spawn_worker(spec), Error);
}

TEST_CASE("killing all leaves nothing of a family, and other children alone") {
    Fixture f;
    sys::Child other = sys::Child::spawn({.argv = {"sleep", "1000"}});
    std::vector<WorkerSpec> specs;
    for (int rank = 0; rank < 3; ++rank)
        specs.push_back(shell(kFamilyScript, f.family.write_end(), rank));
    f.start(specs);
    f.family.close_write();
    REQUIRE(f.family.wait_for_lines(3 * kFamilySize, 20s));
    const SystemClock clock;
    const Monotonic before = clock.monotonic();
    CHECK(f.group.kill_all().empty());
    MESSAGE("kill_all took "
            << std::chrono::duration<double, std::milli>(clock.monotonic() - before).count()
            << " ms for 3 families");
    CHECK(f.family.all_gone(0s));
    CHECK(f.group.empty());
    CHECK(f.ends.empty());
    REQUIRE(f.serve_until([&] { return f.ends.size() == 3; }));
    CHECK(f.ends[0].exit.signal == SIGKILL);
    CHECK(f.ends[0].by_us);
    CHECK(!other.try_wait().has_value());
    other.signal(SIGKILL);
    const auto end = other.wait(Deadline::in(10s));
    REQUIRE(end.has_value());
    CHECK(end->signal == SIGKILL);
    CHECK(own_children().empty());
}

TEST_CASE("who ended by itself before the kill is told from who was killed") {
    Fixture f;
    f.start({shell("exit 7", -1, 0), shell("exec sleep 1000", f.family.write_end(), 1)});
    f.family.close_write();
    const pid_t failed = f.group.pids()[0].second;
    const Deadline by = Deadline::in(20s);
    while (read_process_line(failed)->state != 'Z' && !by.passed())
        sys::pause(Deadline::in(1ms), {});
    CHECK(f.group.kill_all().empty());
    const std::vector<WorkerEnd> ended = f.group.take_ended();
    REQUIRE(ended.size() == 2);
    CHECK(ended[0].local_rank == 0);
    CHECK(ended[0].exit.code == 7);
    CHECK(!ended[0].by_us);
    CHECK(ended[1].by_us);
    f.poller.run_once(Deadline::in(0ms), {});
    CHECK(f.ends.empty());  // not reported twice
}

TEST_CASE("the callback may kill the rest and start again") {
    sys::Poller poller;
    FamilyPipe family;
    std::vector<WorkerEnd> ends;
    WorkerGroup* self = nullptr;
    bool again = false;
    WorkerGroup group(poller, [&](const WorkerEnd& end) {
        ends.push_back(end);
        CHECK(self->kill_all().empty());
        if (!again) {
            again = true;
            self->start({shell("exit 5")}, nullptr, "second");
        }
    });
    self = &group;
    group.start({shell("exit 4", -1, 0), shell(kFamilyScript, family.write_end(), 1)}, nullptr,
                "first");
    family.close_write();
    const Deadline by = Deadline::in(20s);
    while (ends.size() < 2 && !by.passed()) poller.run_once(Deadline::in(50ms), {});
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].exit.code == 4);
    CHECK((ends[1].exit.code == 5 || ends[1].by_us));
    CHECK(family.all_gone(1s));
}

TEST_CASE("stopped workers die too") {
    Fixture f;
    f.start("echo 1; kill -STOP $$; sleep 1000");
    f.family.close_write();
    const pid_t pid = f.group.pids()[0].second;
    const Deadline by = Deadline::in(20s);
    while (read_process_line(pid)->state != 'T' && !by.passed()) sys::pause(Deadline::in(1ms), {});
    CHECK(f.group.kill_all().empty());
    CHECK(f.family.all_gone(1s));
}

TEST_CASE("a worker that kills its process group does not kill us") {
    if (::isatty(0) == 1) {
        MESSAGE("skipped: on a terminal workers share our group");
        return;
    }
    Fixture f;
    f.start("sleep 1000 & kill -KILL 0");
    f.family.close_write();
    REQUIRE(f.serve_until([&] { return f.ends.size() == 1; }));
    CHECK(f.ends[0].exit.signal == SIGKILL);
    CHECK(!f.ends[0].by_us);
    CHECK(f.family.all_gone(1s));
}

TEST_CASE("programs that fork while they are killed do not escape") {
    if (!has("perl")) return;
    const char* const runners[] = {
        // Always a few dozen short-lived children.
        "while (1) { if (!fork) { select(undef, undef, undef, 0.02); exit }"
        " select(undef, undef, undef, 0.001) }",
        // One process that changes its number all the time.
        "while (1) { exit if fork }",
        // The same, leaving its session once.
        "use POSIX; exit if fork; POSIX::setsid(); while (1) { exit if fork }",
        // A tree of 64 that grows anew when cut.
        "for (1..6) { fork } while (1) { if (!fork) { select(undef, undef, undef, 0.05); exit }"
        " wait }",
    };
    for (const char* runner : runners) {
        CAPTURE(runner);
        Fixture f;
        WorkerSpec spec = {.argv = {"perl", "-e", std::string("$| = 1; print \"1\\n\"; ") + runner},
                           .env = {"PATH=/usr/bin:/bin"},
                           .stdout_fd = f.family.write_end()};
        f.start({spec});
        f.family.close_write();
        REQUIRE(f.family.wait_for_lines(1, 20s));
        sys::pause(Deadline::in(30ms), {});  // let it spread
        CHECK(f.group.kill_all(10s).empty());
        CHECK(f.family.all_gone(1s));
    }
}

TEST_CASE("signals reach workers only, and on request only those that catch them") {
    Fixture f;
    const std::string catcher =
        "trap 'echo caught; exit 0' USR1; echo up; while :; do sleep 0.05; done";
    f.start({shell(catcher, f.family.write_end(), 0),
             shell("echo up; exec sleep 1000", f.family.write_end(), 1)});
    f.family.close_write();
    REQUIRE(f.family.wait_for_lines(2, 20s));
    CHECK(f.group.signal_catchers(SIGUSR1) == 1);
    REQUIRE(f.serve_until([&] { return f.ends.size() == 1; }));
    CHECK(f.ends[0].exit.ok());
    CHECK(f.family.wait_for_lines(3, 20s));
    f.group.signal(SIGTERM);
    REQUIRE(f.serve_until([&] { return f.ends.size() == 2; }));
    CHECK(f.ends[1].exit.signal == SIGTERM);
    CHECK(!WorkerGroup::catches(1 << 30, SIGUSR1));
}

TEST_CASE("a daemonised descendant that ends is reaped") {
    Fixture f;
    f.start("(true &); (setsid true &); echo 1; exec sleep 1000");
    REQUIRE(f.family.wait_for_lines(1, 20s));
    const pid_t worker = f.group.pids()[0].second;
    const auto only_worker = [&] {
        f.group.reap_adopted();
        return own_children() == std::vector<pid_t>{worker};
    };
    CHECK(f.serve_until(only_worker));
    CHECK(f.group.alive() == 1);
}

TEST_CASE("workers live in a control group that goes with them") {
    if (!WorkerCgroup::create("probe").is_open()) {
        MESSAGE("skipped: no control group may be made here");
        return;
    }
    sys::Child gone = sys::Child::spawn({.argv = {"true"}});
    REQUIRE(gone.wait(Deadline::in(10s)).has_value());
    struct stat here = {};
    REQUIRE(::stat("/proc/self/ns/pid", &here) == 0);
    const auto stale = own_cgroup() / format("trainyard-{}-{}-7", gone.pid(), here.st_ino);
    REQUIRE(::mkdir(stale.c_str(), 0755) == 0);
    sys::Child stray = sys::Child::spawn({.argv = {"sleep", "1000"}});
    sys::write_file(stale / "cgroup.procs", std::to_string(stray.pid()));
    {
        Fixture f;
        f.start("echo 1; exec sleep 1000");
        REQUIRE(f.family.wait_for_lines(1, 20s));
        const pid_t pid = f.group.pids()[0].second;
        const std::string groups = sys::read_file(format("/proc/{}/cgroup", pid));
        CHECK(groups.find(format("trainyard-{}-{}-test", ::getpid(), here.st_ino)) !=
              std::string::npos);
        CHECK(!sys::fs::exists(stale));
        CHECK(stray.wait(Deadline::in(5s)).has_value());
        CHECK(left_over_groups() == 1);
        CHECK(f.group.oom_kills() >= 0);
        CHECK(f.group.kill_all().empty());
        CHECK(left_over_groups() == 0);
        CHECK(f.group.oom_kills() >= 0);
        f.start(kFamilyScript);
    }
    CHECK(left_over_groups() == 0);
}

TEST_CASE("a process that does not die is reported, not waited for") {
    Freezer freezer;
    if (!freezer.works()) {
        MESSAGE("skipped: no freezer group may be made here");
        return;
    }
    Fixture f;
    f.start("echo 1; exec sleep 1000");
    REQUIRE(f.family.wait_for_lines(1, 20s));
    const pid_t pid = f.group.pids()[0].second;
    REQUIRE(freezer.put(pid));
    freezer.set("FROZEN");
    REQUIRE(f.serve_until([&] { return freezer.is_frozen(); }));
    const SystemClock clock;
    const Monotonic before = clock.monotonic();
    CHECK(f.group.kill_all(50ms) == std::vector<pid_t>{pid});
    CHECK(clock.monotonic() - before < 1s);
    CHECK(f.group.alive() == 1);
    freezer.set("THAWED");
    CHECK(f.group.kill_all(10s).empty());
}

TEST_CASE("a stuck process is described") {
    sys::Child child = sys::Child::spawn({.argv = {"sleep", "1000"}});
    const std::string text = describe_stuck(child.pid(), Deadline::in(20ms));
    CHECK(text.find(format("thread {} (", child.pid())) != std::string::npos);
    CHECK(describe_stuck(1 << 30, Deadline::in(20ms)) == "process 1073741824 is gone\n");
    const Activity activity = read_activity(child.pid());
    CHECK(activity.state != '?');
}
