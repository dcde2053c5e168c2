// SPDX-License-Identifier: Apache-2.0
// The agent for real: boxes with live programs, and whole jobs against a daemon in memory. The test
// program is its own `trainyard-agent box`.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/agent.h"
#include "agent/launcher/launch.h"
#include "agent/launcher/link/link.h"
#include "agent/network/network_main.h"
#include "agent/runner.h"
#include "agent/sandbox/box.h"
#include "agent/testing/job_run.h"
#include "agent/transfer/unpack.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;
namespace fs = sys::fs;

namespace {

using Kind = plan::Outcome::Kind;

/// Processes whose command line contains the text.
int count_processes(const std::string& text) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const auto cmdline = capture([&] { return sys::read_file(entry.path() / "cmdline"); });
        if (cmdline.ok() &&
            ty::Result<std::string>(cmdline).value().find(text) != std::string::npos)
            ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("a job runs, its lines arrive in order and its results are archives") {
    JobRun job;
    job.daemon.plan.hyperparameters = {{"b", "1"}, {"a", "2"}};
    job.daemon.put_object("data/train/x.csv", "1,2\n");
    job.daemon.put_object("data/train/sub/y.csv", "3\n");
    job.daemon.plan.channels = {{.name = "train", .uri = "s3://data/train"}};
    job.shell(
        "cd /opt/ml; cat input/config/hyperparameters.json; echo; cat input/data/train/x.csv "
        "input/data/train/sub/y.csv; "
        "echo err >&2; mkdir model/code; echo w > model/weights; echo i > model/code/inference.py; "
        "echo o > output/data/log");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::completed);
    CHECK(end.outcome.exit_code == 0);
    CHECK(end.model_uploaded);
    std::vector<std::string> own;
    for (const std::string& line : job.daemon.lines()) {
        if (!line.starts_with("trainyard: ")) own.push_back(line);
    }
    CHECK(own == std::vector<std::string>{R"({"b":"1","a":"2"})", "1,2", "3", "err"});
    CHECK(job.member("out/jobs/Test-Job/output/model.tar.gz", "code/inference.py") == "i\n");
    CHECK(job.member("out/jobs/Test-Job/output/output.tar.gz", "log") == "o\n");
    std::vector<plan::Phase> phases;
    for (const plan::Event& event : job.daemon.events()) {
        if (const auto* phase = std::get_if<plan::PhaseChanged>(&event.payload))
            phases.push_back(phase->phase);
    }
    CHECK(phases ==
          std::vector{plan::Phase::downloading, plan::Phase::training, plan::Phase::uploading});
    struct stat info = {};
    REQUIRE(::stat((job.folder() / "ml/model/weights").c_str(), &info) == 0);
    CHECK(info.st_uid == ::getuid());
}

TEST_CASE("the box hides the host and shows a container") {
    if (!has_namespaces()) return;
    JobRun job;
    sys::write_file(job.dir().path() / "secret", "state of the daemon");
    job.daemon.plan.sdk_files = {{"/opt/trainyard/ca.pem", "certificate"}};
    job.shell(
        "echo id=$(id -u) host=$(hostname) pid=$$ home=$HOME; grep algo-1 /etc/hosts; ls -A /home "
        "/tmp /root /opt/ml | tr '\\n' ' '; echo; "
        "cat " +
        (job.dir().path() / "secret").string() +
        " 2>&1; touch /usr/x 2>&1; touch /etc/x 2>&1; "
        "echo procs=$(ls /proc | grep -c '^[0-9]'); df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' "
        "' -f2; "
        "cat /opt/trainyard/ca.pem; echo; grep -E 'CapEff|NoNewPrivs' /proc/self/status; echo tty "
        "> /dev/null && head -c4 /dev/zero | wc -c; "
        "test -r /etc/shadow && grep -c . /etc/shadow; mount -t tmpfs x /mnt 2>&1; env | grep "
        "'^TRAINYARD_' | grep -vc TRAINYARD_PROGRESS_FILE; echo leaked=$(tr '\\0' '\\n' < "
        "/proc/1/environ | grep -c "
        "TRAINYARD_TEST_LEAK)");
    ::setenv("TRAINYARD_TEST_LEAK", "1", 1);
    const plan::Finished end = job.run();
    ::unsetenv("TRAINYARD_TEST_LEAK");
    CHECK(end.outcome.kind != Kind::agent_error);
    CHECK(job.daemon.has_line("id=0 host=algo-1 pid=2 home=/root"));
    CHECK(job.daemon.has_line("127.0.0.1 localhost algo-1"));
    CHECK_FALSE(job.daemon.has_line("state of the daemon"));
    CHECK(job.daemon.has_line("'/usr/x': Read-only file system"));
    CHECK(job.daemon.has_line("'/etc/x': Read-only file system"));
    CHECK(job.daemon.has_line("16384"));
    CHECK(job.daemon.has_line("certificate"));
    CHECK(job.daemon.has_line("NoNewPrivs:\t1"));
    CHECK(job.daemon.has_line("mount: "));
    CHECK(job.daemon.has_line("leaked=0"));
    const std::vector<std::string> lines = job.daemon.lines();
    CHECK(std::ranges::find(lines, "0") != lines.end());
    CHECK(job.daemon.wait_for_line("/home:"));
}

TEST_CASE("a stop reaches the program as SIGTERM and keeps the results") {
    JobRun job;
    job.shell(
        "trap 'echo got term; echo saved > /opt/ml/model/m; exit 7' TERM; echo ready; while :; do "
        "sleep 0.05; done");
    if (!has_namespaces()) return;
    job.start();
    REQUIRE(job.daemon.wait_for_line("ready"));
    job.daemon.command(plan::Stop{20s});
    const plan::Finished end = job.wait();
    CHECK(end.outcome.kind == Kind::stopped);
    CHECK(end.outcome.exit_code == 7);
    CHECK(end.model_uploaded);
    CHECK(job.daemon.has_line("got term"));
}

TEST_CASE("a program that ignores SIGTERM is killed after the grace period") {
    JobRun job;
    job.shell("trap '' TERM; echo ready; while :; do sleep 1; done");
    job.start();
    REQUIRE(job.daemon.wait_for_line("ready"));
    job.daemon.command(plan::Stop{0s});
    const plan::Finished end = job.wait();
    CHECK(end.outcome.kind == Kind::stopped);
    CHECK(end.outcome.exit_code == 137);
}

TEST_CASE(
    "an interruption reaches the program as SIGTERM, is said in the log, and keeps no results") {
    JobRun job;
    job.shell(
        "trap 'echo got term; echo x > \"${SAGEMAKER_BASE_DIR:-/opt/ml}\"/model/m; exit 0' TERM; "
        "echo ready; while :; do sleep 0.05; done");
    job.start();
    REQUIRE(job.daemon.wait_for_line("ready"));
    job.daemon.command(plan::Interrupt{20s, "spot capacity is needed"});
    const plan::Finished end = job.wait();
    CHECK(end.outcome.kind == Kind::interrupted);
    CHECK(end.outcome.exit_code == 0);
    CHECK_FALSE(end.model_uploaded);
    CHECK(job.daemon.has_line("got term"));
    CHECK(job.daemon.has_line(" s: spot capacity is needed"));
    CHECK(job.daemon.object_names().empty());
}

TEST_CASE("the end of the notice is the end of the program") {
    JobRun job;
    job.shell("trap '' TERM; echo ready; while :; do sleep 1; done");
    job.start();
    REQUIRE(job.daemon.wait_for_line("ready"));
    job.daemon.command(plan::Interrupt{100ms, ""});
    const plan::Finished end = job.wait();
    CHECK(end.outcome.kind == Kind::interrupted);
    CHECK(end.outcome.exit_code == 137);
}

TEST_CASE("an interruption also ends staging and the upload of results") {
    JobRun job;
    SUBCASE("staging") {
        job.daemon.plan.channels = {{.name = "train", .uri = "s3://data/train"}};
        job.daemon.hide_storage(true);
        job.shell("echo must not run");
        job.start();
        REQUIRE(job.daemon.wait_for<plan::PhaseChanged>().has_value());
    }
    SUBCASE("upload") {
        job.shell("echo m > \"${SAGEMAKER_BASE_DIR:-/opt/ml}\"/model/m; echo done");
        job.daemon.hide_storage(true);
        job.start();
        REQUIRE(job.daemon.wait_for_line("done"));
    }
    job.daemon.command(plan::Interrupt{300ms, "gone soon"});
    const plan::Finished end = job.wait();
    CHECK(end.outcome.kind == Kind::interrupted);
    CHECK(job.daemon.has_line("gone soon"));
    CHECK_FALSE(job.daemon.has_line("must not run"));
}

TEST_CASE("a frozen program stands still with all its processes, and goes on") {
    JobRun job;
    // Two processes that say the time; what they print has a gap of the frozen time.
    const std::string ticking = "while :; do date +tick%s%N; sleep 0.02; done";
    job.shell("trap 'exit 0' TERM; (" + ticking + ") & echo ready; " + ticking);
    job.start();
    REQUIRE(job.daemon.wait_for_line("tick"));
    job.daemon.command(plan::Freeze{700ms});
    REQUIRE(job.daemon.wait_for_line("the program goes on"));
    const auto ticks_on = [&job] {
        const std::vector<std::string> lines = job.daemon.lines();
        const auto on = std::ranges::find(lines, "trainyard: the program goes on");
        return std::any_of(on, lines.end(),
                           [](const std::string& line) { return line.starts_with("tick"); });
    };
    for (const Deadline by = Deadline::in(20s); !ticks_on() && !by.passed();)
        (void)sys::pause(Deadline::in(5ms), {});
    job.daemon.command(plan::Stop{5s});
    CHECK(job.wait().outcome.kind == Kind::stopped);
    long long last = 0, gap = 0;
    for (const std::string& line : job.daemon.lines()) {
        if (!line.starts_with("tick")) continue;
        const long long now = parse_int(line.substr(4)).value_or(0);
        if (last > 0) gap = std::max(gap, now - last);
        last = std::max(now, last);
    }
    CHECK(gap > 600'000'000);
}

TEST_CASE("while the network is cut nobody hears of the agent, and nothing is lost") {
    JobRun job;
    job.shell(
        "echo before; i=0; while [ $i -lt 60 ]; do echo line $i; sleep 0.02; i=$((i+1)); done");
    job.start();
    REQUIRE(job.daemon.wait_for_line("before"));
    job.daemon.command(plan::Partition{600ms});
    job.daemon.command(plan::Freeze{50ms});  // comes after it
    CHECK(job.wait().outcome.kind == Kind::completed);
    CHECK(job.daemon.longest_silence() > 550ms);
    std::vector<std::string> lines = job.daemon.lines();
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("trainyard: "); });
    REQUIRE(lines.size() == 61);
    CHECK(lines[60] == "line 59");
}

TEST_CASE("the max run time ends a job as timed out") {
    JobRun job;
    job.daemon.plan.limits.max_runtime = 1s;
    job.shell("echo partial > /opt/ml/model/m 2>/dev/null || true; exec sleep 1000");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::timed_out);
    CHECK(end.outcome.exit_code == 143);
}

TEST_CASE("what a program leaves running dies with it") {
    JobRun job;
    job.shell(
        "(setsid sh -c 'sleep 98765.4321 & sleep 98765.4321' > /dev/null 2>&1 &); (setsid sleep "
        "98765.4321 &); echo done");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::completed);
    CHECK(count_processes("98765.4321") == 0);
}

TEST_CASE("without namespaces a job still runs, from its real folder, and leaves nothing behind") {
    ::setenv("TRAINYARD_SANDBOX", "process", 1);
    JobRun job;
    job.daemon.plan.sdk_files = {{"/opt/trainyard/ca.pem", "certificate"}};
    job.daemon.plan.environment.variables = {{"AWS_CA_BUNDLE", "/opt/trainyard/ca.pem"}};
    job.shell(
        "cd \"$SAGEMAKER_BASE_DIR\"; cat input/config/hyperparameters.json; echo; cat "
        "$AWS_CA_BUNDLE; echo; "
        "echo m > model/m; (setsid sh -c 'sleep 77777.125 & sleep 77777.125' > /dev/null 2>&1 &); "
        "(setsid sleep 77777.125 &); trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done");
    job.start();
    REQUIRE(job.daemon.wait_for_line("ready"));
    job.daemon.command(plan::Stop{20s});
    const plan::Finished end = job.wait();
    ::unsetenv("TRAINYARD_SANDBOX");
    CHECK(end.outcome.kind == Kind::stopped);
    CHECK(end.outcome.exit_code == 5);
    CHECK(end.model_uploaded);
    CHECK(job.daemon.has_line("certificate"));
    CHECK(job.daemon.has_line("sandbox: process (TRAINYARD_SANDBOX asks for it)"));
    CHECK(count_processes("77777.125") == 0);
}

TEST_CASE("failures say why") {
    SUBCASE("the failure file") {
        JobRun job;
        job.shell(
            "echo some output; echo 'my own words' > "
            "${SAGEMAKER_BASE_DIR:-/opt/ml}/output/failure; exit 3");
        CHECK(job.run().outcome.reason == "AlgorithmError: my own words, exit code: 3");
    }
    SUBCASE("the last lines") {
        JobRun job;
        job.shell("echo step 1; echo 'cannot open data' >&2; exit 9");
        const plan::Finished end = job.run();
        CHECK(end.outcome.kind == Kind::failed);
        CHECK(end.outcome.exit_code == 9);
        CHECK(end.outcome.reason == "AlgorithmError: step 1\ncannot open data, exit code: 9");
    }
    SUBCASE("a signal") {
        JobRun job;
        job.shell("kill -SEGV $$");
        CHECK(job.run().outcome.reason ==
              "AlgorithmError: killed by SIGSEGV (signal 11), exit code: 139");
    }
    SUBCASE("no program") {
        JobRun job;
        const plan::Finished end = job.run();
        CHECK(end.outcome.kind == Kind::failed);
        CHECK(end.outcome.reason.find("no program \"train\" on PATH") != std::string::npos);
        CHECK(end.outcome.reason.ends_with("exit code: 127"));
    }
    SUBCASE("no data") {
        JobRun job;
        job.daemon.plan.channels = {{.name = "train", .uri = "s3://data/nothing"}};
        const plan::Finished end = job.run();
        CHECK(end.outcome.kind == Kind::failed);
        CHECK(end.outcome.reason ==
              "ClientError: Data download failed:channel \"train\": no S3 objects found under "
              "\"s3://data/nothing\"; check the S3Uri");
    }
}

TEST_CASE("a million bytes without a newline arrive whole") {
    JobRun job;
    job.shell("head -c 1000000 /dev/zero | tr '\\0' x");
    CHECK(job.run().outcome.kind == Kind::completed);
    std::size_t size = 0;
    for (const std::string& line : job.daemon.lines()) {
        if (line.starts_with("xxx")) size += line.size();
    }
    CHECK(size == 1'000'000);
}

TEST_CASE("a daemon that goes away in mid-job misses nothing") {
    JobRun job;
    job.shell(
        "echo before; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo after");
    job.start();
    REQUIRE(job.daemon.wait_for_line("before"));
    job.daemon.be_away(true);
    (void)sys::pause(Deadline::in(300ms), {});
    job.daemon.be_away(false);
    CHECK(job.wait().outcome.kind == Kind::completed);
    std::vector<std::string> lines = job.daemon.lines();
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("trainyard: "); });
    REQUIRE(lines.size() == 2002);
    CHECK(lines[1] == "line 0");
    CHECK(lines[2000] == "line 1999");
}

TEST_CASE("a refused token ends agent and program") {
    JobRun job;
    job.shell("echo ready; exec sleep 43210.9876");
    job.start();
    REQUIRE(job.daemon.wait_for_line("ready"));
    job.daemon.forget();
    sys::fs::path done = job.folder() / "agent.done";
    for (const Deadline by = Deadline::in(20s); !fs::exists(done) && !by.passed();)
        (void)sys::pause(Deadline::in(10ms), {});
    CHECK(sys::read_file(done) == "gone\n");
    CHECK(count_processes("43210.9876") == 0);
}

TEST_CASE("script mode runs a shell entry point in a sub-folder with its arguments") {
    JobRun job;
    job.source({{"s0/run.sh", "echo \"args: $*\"; pwd; echo $SM_HP_STAGE $SM_CHANNELS\n"}},
               "s0/run.sh");
    job.daemon.plan.hyperparameters.emplace_back("stop_stage", "3");
    job.daemon.plan.hyperparameters.emplace_back("stage", "-1");
    CHECK(job.run().outcome.kind == Kind::completed);
    CHECK(job.daemon.has_line("args: --stage -1 --stop_stage 3"));
    CHECK(job.daemon.has_line("-1 []"));
}

TEST_CASE("script mode runs Python with the toolkit's failure conventions") {
    if (!fs::exists("/usr/bin/python3")) {
        MESSAGE("skipped: no /usr/bin/python3");
        return;
    }
    JobRun job;
    job.daemon.plan.environment.python = "/usr/bin/python3";
    job.source({{"train.py",
                 "import sys, os, helper\nprint(sys.argv[1:], os.environ['SM_MODEL_DIR'], "
                 "helper.x)\nraise ValueError('too bad')\n"},
                {"helper.py", "x = 'helped'\n"}},
               "train.py");
    job.daemon.plan.hyperparameters.emplace_back("lr", "0.10");
    job.daemon.plan.hyperparameters.emplace_back("verbose", "true");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::failed);
    CHECK(job.daemon.has_line("['--lr', '0.1', '--verbose', 'True']"));
    CHECK(
        end.outcome.reason.starts_with("AlgorithmError: ExecuteUserScriptError:\nExitCode "
                                       "1\nErrorMessage \"ValueError: too bad\"\nCommand \""));
    CHECK(end.outcome.reason.ends_with(
        "/bin/python train.py --lr 0.1 --verbose True\", exit code: 1"));
}

TEST_CASE("a program of its own runs as it is, or several times under our launcher") {
    JobRun job;
    sys::write_file(job.dir().path() / "train",
                    "#!/bin/sh\nprintf '%s\\n' \"rank ${RANK:-none} of ${WORLD_SIZE:-none}, local "
                    "${LOCAL_RANK:-none}, threads ${OMP_NUM_THREADS:-none}, $*\"\n"
                    "cd \"${SAGEMAKER_BASE_DIR:-/opt/ml}\"; grep -q wrong "
                    "input/config/hyperparameters.json || exit 0\n"
                    "echo 'unknown hyperparameter wrong' > output/failure; exit 1\n",
                    0755);
    plan::Environment& environment = job.daemon.plan.environment;
    environment.toolkit = false;
    environment.launcher = true;
    environment.entrypoint = {(job.dir().path() / "train").string()};
    environment.readable = {job.dir().path().string()};
    SUBCASE("as it is") {
        CHECK(job.run().outcome.kind == Kind::completed);
        CHECK(job.daemon.has_line("rank none of none, local none, threads none, train"));
    }
    SUBCASE("twice") {
        job.daemon.plan.hyperparameters = {{"processes_per_host", "2"}};
        job.daemon.plan.limits.cpus = 6;
        CHECK(job.run().outcome.kind == Kind::completed);
        CHECK(job.daemon.has_line("rank 0 of 2, local 0, threads 3, train"));
        CHECK(job.daemon.has_line("rank 1 of 2, local 1, threads 3, train"));
    }
    SUBCASE("twice, in the process rung") {
        ::setenv("TRAINYARD_SANDBOX", "process", 1);
        job.daemon.plan.hyperparameters = {{"processes_per_host", "2"}};
        const plan::Finished end = job.run();
        ::unsetenv("TRAINYARD_SANDBOX");
        CHECK(end.outcome.kind == Kind::completed);
        CHECK(job.daemon.has_line("rank 1 of 2, local 1"));
    }
    SUBCASE("its own words are the reason of a failure") {
        for (const char* processes : {"1", "2"}) {
            CAPTURE(processes);
            JobRun failing;
            failing.daemon.plan.environment = environment;
            failing.daemon.plan.hyperparameters = {{"wrong", "1"},
                                                   {"processes_per_host", processes}};
            const plan::Finished end = failing.run();
            CHECK(end.outcome.kind == Kind::failed);
            CHECK(end.outcome.reason.find("unknown hyperparameter wrong") != std::string::npos);
        }
    }
    SUBCASE("a number of processes that is none is refused") {
        job.daemon.plan.hyperparameters = {{"processes_per_host", "many"}};
        CHECK(job.run().outcome.reason.find("processes_per_host: many is not a number") !=
              std::string::npos);
    }
}

TEST_CASE("an absent entry point is named with what is there instead") {
    JobRun job;
    job.source({{"other.py", ""}, {"lib/a.py", ""}}, "train.py");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::failed);
    CHECK(end.outcome.reason.find("entry point \"train.py\" is not in the source "
                                  "s3://src/source.tar.gz; it holds: lib/, other.py") !=
          std::string::npos);
}

TEST_CASE(
    "requirements come from wheels in the source, once, and what cannot be had is pip's own "
    "failure") {
    if (!fs::exists("/usr/bin/python3")) {
        MESSAGE("skipped: no /usr/bin/python3");
        return;
    }
    const sys::Output pip =
        sys::run({.argv = {"/usr/bin/python3", "-m", "pip", "--version"}}, Deadline::in(60s));
    if (!pip.exit.ok()) {
        MESSAGE("skipped: /usr/bin/python3 has no pip");
        return;
    }
    JobRun job;
    job.daemon.plan.environment.python = "/usr/bin/python3";
    // A wheel is a zip with two files of metadata; python makes one without any build tool.
    const std::string wheel =
        "import zipfile\nz=zipfile.ZipFile('tiny_thing-1.2-py3-none-any.whl','w')\n"
        "z.writestr('tiny_thing.py','value=42\\n')\n"
        "z.writestr('tiny_thing-1.2.dist-info/METADATA','Metadata-Version: 2.1\\nName: "
        "tiny-thing\\nVersion: 1.2\\n')\n"
        "z.writestr('tiny_thing-1.2.dist-info/WHEEL','Wheel-Version: 1.0\\nGenerator: "
        "x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "z.writestr('tiny_thing-1.2.dist-info/RECORD','')\nz.close()\n";
    fs::create_directories(job.dir().path() / "source");
    const sys::Output made = sys::run(
        {.argv = {"/usr/bin/python3", "-c", wheel}, .cwd = (job.dir().path() / "source").string()},
        Deadline::in(60s));
    REQUIRE_MESSAGE(made.exit.ok(), made.text);
    job.source({{"train.py", "import tiny_thing\nprint('value', tiny_thing.value)\n"},
                {"requirements.txt", "tiny-thing==1.2\n"}},
               "train.py");
    CHECK(job.run().outcome.kind == Kind::completed);
    CHECK(job.daemon.has_line("value 42"));
    CHECK(fs::exists(job.dir().path() / "cache/requirements"));
}

TEST_CASE("requirements that cannot be had are a failure in the toolkit's words") {
    if (!fs::exists("/usr/bin/python3") ||
        !sys::run({.argv = {"/usr/bin/python3", "-m", "pip", "--version"}}, Deadline::in(60s))
             .exit.ok()) {
        MESSAGE("skipped: no /usr/bin/python3 with pip");
        return;
    }
    JobRun job;
    job.daemon.plan.environment.python = "/usr/bin/python3";
    job.daemon.plan.variables = {{"PIP_NO_INDEX", "1"}};
    job.source(
        {{"train.py", "print('must not run')\n"}, {"requirements.txt", "no-such-thing==9\n"}},
        "train.py");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::failed);
    CHECK(end.outcome.reason.starts_with(
        "AlgorithmError: InstallRequirementsError:\nExitCode 1\nErrorMessage \"ERROR:"));
    CHECK(end.outcome.reason.find("no-such-thing==9") != std::string::npos);
    CHECK(end.outcome.reason.ends_with("-m pip install -r requirements.txt\", exit code: 1"));
    CHECK_FALSE(job.daemon.has_line("must not run"));
}

TEST_CASE("an agent that finds its own traces reports instead of running twice") {
    JobRun job;
    job.shell("echo must not run");
    job.daemon.prepare(job.folder());
    plan::Event event;
    event.seq = 1;
    event.host = "algo-1";
    event.payload = plan::AgentUp{1, "namespaces"};
    sys::write_file(job.folder() / "events", plan::to_json(event) + "\n{\"torn");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::agent_error);
    CHECK_FALSE(job.daemon.has_line("must not run"));
}

TEST_CASE("an ordinary user gets the same box" * doctest::may_fail(false)) {
    if (::geteuid() != 0 || ::getenv("TY_UNPRIVILEGED") != nullptr) return;
    const sys::Output setpriv =
        sys::run({.argv = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                           "test", "-x", "/proc/self/exe"}},
                 Deadline::in(20s));
    if (!setpriv.exit.ok()) {
        MESSAGE("skipped: cannot become another user");
        return;
    }
    // Where that user may read it, whatever the build folder's modes.
    const sys::TempDir dir("agent-test");
    ::chmod(dir.path().c_str(), 0755);
    fs::copy_file("/proc/self/exe", dir.path() / "agent_process_test");
    ::chmod((dir.path() / "agent_process_test").c_str(), 0755);
    ::setenv("TY_UNPRIVILEGED", "1", 1);
    const sys::Output run =
        sys::run({.argv = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                           (dir.path() / "agent_process_test").string(),
                           "--test-case=*job runs*,*box hides*,*leaves running*,*stop "
                           "reaches*,*without namespaces*"}},
                 Deadline::in(100s));
    ::unsetenv("TY_UNPRIVILEGED");
    CHECK_MESSAGE(run.exit.ok(), run.text);
}

int main(int argc, char** argv) {
    if (argc >= 2 && std::string_view(argv[1]) == "box")
        leave(argc == 3 ? box_probe_main() : box_main());
    const std::string_view name = argv[0];
    if (name.ends_with("/torchrun") || name == "torchrun")
        leave(launch_main({argv + 1, argv + argc}));
    if (argc >= 2 && std::string_view(argv[1]) == "launch")
        leave(launch_main({argv + 2, argv + argc}));
    if (argc == 3 && std::string_view(argv[1]) == "network") return network_main(argv[2]);
    if (argc == 2 && std::string_view(argv[1]) == "coordinate") return coordinator_main();
    // Tests may run inside an agent's job; its variables are not ours.
    ::unsetenv("TRAINYARD_CACHE");
    ::unsetenv("TRAINYARD_LOCK_FD");
    return doctest::Context(argc, argv).run();
}
