// SPDX-License-Identifier: Apache-2.0
// Standby interpreters against cold starts: the same scripts, in both ways, must not be able to
// tell the difference. Scripts that need more than a line or two lie in tests/warm/.
//
// TRAINYARD_TEST_PYTHON names the interpreter; else the project's own environment, else python3.
#include "agent/launcher/warm_pool.h"
#include "agent/launcher/workers.h"
#include "base/error.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ty;
using agent::WarmPool;
using agent::WarmRecipe;

namespace {

namespace fs = sys::fs;
using Strings = std::vector<std::string>;

constexpr seconds kPatience(120);  // sanitizers, and machines that others use, too

std::string interpreter() {
    if (const char* chosen = std::getenv("TRAINYARD_TEST_PYTHON")) return chosen;
    const fs::path own = fs::path(TY_SOURCE_DIR) / ".venv/train/bin/python";
    if (fs::exists(own)) return own;
    return fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
}

/// A bare environment: what a test needs to be the same for both ways, and no more.
Strings environment(Strings more = {}) {
    Strings env = {"PATH=/usr/local/bin:/usr/bin:/bin",
                   "HOME=/nonexistent",
                   "LANG=C.UTF-8",
                   "RANK=0",
                   "WORLD_SIZE=1",
                   "OMP_NUM_THREADS=1",
                   "PYTHONDONTWRITEBYTECODE=1"};
    env.insert(env.end(), more.begin(), more.end());
    return env;
}

enum class Stream { file, pipe };

struct Outcome {
    std::string output, errors;
    sys::Exit exit;
    bool operator==(const Outcome& other) const {
        return output == other.output && errors == other.errors && exit.code == other.exit.code &&
               exit.signal == other.exit.signal;
    }
};

/// Where a process writes, read back when it has ended.
class Sink {
public:
    Sink(Stream kind, const fs::path& path) : path_(path) {
        if (kind == Stream::pipe) {
            pipe_ = sys::make_pipe();
        } else {
            pipe_.write = sys::open_write(path, O_TRUNC);
        }
    }
    int fd() const { return pipe_.write.get(); }
    /// Until the last writer is gone.
    std::string text() {
        pipe_.write.close();
        if (!pipe_.read.is_open()) return sys::read_file(path_);
        std::string result;
        std::array<std::byte, 4096> buffer;
        while (const std::size_t got = sys::read_some(pipe_.read.get(), buffer))
            result.append(reinterpret_cast<const char*>(buffer.data()), got);
        return result;
    }

private:
    fs::path path_;
    sys::Pipe pipe_;
};

sys::Exit reap(pid_t pid) {
    const Deadline patience = Deadline::in(kPatience);
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) != pid) {
        if (patience.passed()) {
            ::kill(pid, SIGKILL);
            FAIL("the script does not end");
        }
        sys::pause(Deadline::in(milliseconds(2)), {});
    }
    if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
    return {WEXITSTATUS(status), 0};
}

/// A folder to run scripts in: the working folder as long as this lives.
class Bench {
public:
    Bench() : before_(fs::current_path()) { fs::current_path(dir_.path()); }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;
    ~Bench() { fs::current_path(before_); }

    void write(const std::string& name, const std::string& text) {
        fs::create_directories((dir_.path() / name).parent_path());
        sys::write_file(dir_.path() / name, text);
    }
    fs::path path(const std::string& name) const { return dir_.path() / name; }

    Strings command(Strings script_and_arguments) const {
        Strings argv = {python, "-u"};
        argv.insert(argv.end(), script_and_arguments.begin(), script_and_arguments.end());
        return argv;
    }
    WarmRecipe recipe(Strings script_and_arguments) const {
        return {0, command(std::move(script_and_arguments)), env};
    }
    /// Until all standbys are ready or given up.
    void prepare(const WarmRecipe& recipe) {
        pool.prepare({recipe});
        settle();
    }
    void settle() {
        const Deadline patience = Deadline::in(kPatience);
        while (!pool.settled() && !patience.passed()) poller.run_once(patience, {});
        REQUIRE(pool.settled());
    }
    /// The standby's pid, or nothing.
    std::optional<pid_t> take(const WarmRecipe& recipe, Sink& output, Sink& errors) {
        return pool.take(recipe.local_rank, recipe.argv, recipe.env, output.fd(), errors.fd(), -1);
    }

    Outcome cold(Strings script, Stream kind = Stream::pipe) {
        const WarmRecipe what = recipe(std::move(script));
        Sink output(kind, path(".out"));
        Sink errors(kind, path(".err"));
        agent::WorkerSpec spec;
        spec.argv = what.argv;
        spec.env = what.env;
        spec.stdout_fd = output.fd();
        spec.stderr_fd = errors.fd();
        return outcome(agent::spawn_worker(spec), output, errors);
    }
    Outcome warm(Strings script, Stream kind = Stream::pipe) {
        const WarmRecipe what = recipe(std::move(script));
        prepare(what);
        CHECK_MESSAGE(pool.ready() == 1, pool.why_cold());
        Sink output(kind, path(".out"));
        Sink errors(kind, path(".err"));
        const std::optional<pid_t> pid = take(what, output, errors);
        REQUIRE_MESSAGE(pid.has_value(), pool.why_cold());
        return outcome(*pid, output, errors);
    }
    Outcome outcome(pid_t pid, Sink& output, Sink& errors) {
        while_running(pid);
        Outcome result;
        result.output = output.text();
        result.errors = errors.text();
        result.exit = reap(pid);
        return result;
    }
    void same(const Strings& script, Stream kind = Stream::pipe) {
        const Outcome a = cold(script, kind);
        const Outcome b = warm(script, kind);
        CHECK(a.output == b.output);
        CHECK(a.errors == b.errors);
        CHECK(a.exit.code == b.exit.code);
        CHECK(a.exit.signal == b.exit.signal);
    }
    /// Why a script cannot be warmed.
    std::string why(const WarmRecipe& recipe) {
        prepare(recipe);
        CHECK(pool.ready() == 0);
        return pool.why_cold();
    }

    sys::Poller poller;
    WarmPool pool{poller};
    std::string python = interpreter();
    Strings env = environment();
    std::function<void(pid_t)> while_running = [](pid_t) {};

private:
    sys::TempDir dir_{"warm-test"};
    fs::path before_;
};

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a standby runs its script with the arguments and environment of the moment") {
    Bench bench;
    bench.write("script.py",
                "import os, sys\nprint(sys.argv[1:], os.environ['RANK'])\nsys.exit(3)\n");
    WarmRecipe recipe = bench.recipe({"script.py", "a", "b c"});
    bench.prepare(recipe);
    CHECK(bench.pool.why_cold().empty());
    REQUIRE(bench.pool.ready() == 1);
    CHECK_FALSE(bench.pool.pids().empty());

    std::ranges::replace(recipe.env, "RANK=0", "RANK=5");
    Sink output(Stream::pipe, "");
    Sink errors(Stream::pipe, "");
    const std::optional<pid_t> pid = bench.take(recipe, output, errors);
    REQUIRE(pid.has_value());
    CHECK(bench.pool.ready() == 0);
    CHECK(std::ranges::count(bench.pool.pids(), *pid) == 0);
    const Outcome outcome = bench.outcome(*pid, output, errors);
    CHECK(outcome.output == "['a', 'b c'] 5\n");
    CHECK(outcome.errors.empty());
    CHECK(outcome.exit.code == 3);
}

TEST_CASE("what is not a script run by python is not warmed") {
    Bench bench;
    bench.write("script.py", "pass\n");
    WarmRecipe recipe = bench.recipe({"script.py"});
    recipe.argv = {"/bin/sh", "-c", "true"};
    CHECK(contains(bench.why(recipe), "/bin/sh is not called python"));
    recipe.argv = {bench.python, "script.py", "x"};
    CHECK(contains(bench.why(recipe), "not started with -u"));
    recipe.argv = {bench.python, "-u", "-c", "pass"};
    CHECK(contains(bench.why(recipe), "option -c"));
    CHECK(bench.pool.pids().empty());
}

TEST_CASE("an interpreter that ignores the hook never runs the script unasked") {
    Bench bench;
    bench.write("script.py", "open('ran', 'w').close()\n");
    const std::string real = fs::canonical(bench.python);
    for (const std::string option : {"-I", "-E", "-S"}) {
        bench.write("python-wrapper", format("#!/bin/sh\nexec {} {} \"$@\"\n", real, option));
        fs::permissions(bench.path("python-wrapper"), fs::perms::owner_all);
        WarmRecipe recipe = bench.recipe({"script.py"});
        recipe.argv[0] = bench.path("python-wrapper");
        recipe.env.push_back("OPTION=" + option);
        CHECK(contains(bench.why(recipe), "does not run sitecustomize"));
        CHECK_FALSE(fs::exists(bench.path("ran")));
    }
}

TEST_CASE("a wrapper that stays between us and the interpreter is not warmed") {
    Bench bench;
    bench.write("script.py", "open('ran', 'w').close()\n");
    bench.write("python-wrapper", format("#!/bin/sh\n{} \"$@\"\nexit $?\n", bench.python));
    fs::permissions(bench.path("python-wrapper"), fs::perms::owner_all);
    WarmRecipe recipe = bench.recipe({"script.py"});
    recipe.argv[0] = bench.path("python-wrapper");
    CHECK(contains(bench.why(recipe), "wrapper"));
    CHECK_FALSE(fs::exists(bench.path("ran")));
}
