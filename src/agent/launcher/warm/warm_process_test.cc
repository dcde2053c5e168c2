// SPDX-License-Identifier: Apache-2.0
// The pool: what it warms, what it refuses, and that a standby never runs its script unasked.
#include "agent/launcher/warm/warm_bench.h"

using namespace ty;
using namespace ty::agent::testing;
using agent::WarmPool;
using agent::WarmRecipe;

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

namespace {

/// Modules outside of the script's folder, each of which leaves a file where it was imported.
class Library {
public:
    explicit Library(Bench& bench) {
        bench.env = environment({"PYTHONPATH=" + dir_.path().string()});
    }
    void write(const std::string& module, const std::string& text = "") {
        sys::write_file(dir_.path() / (module + ".py"),
                        format("open('imported-{}', 'w').close()\n{}", module, text));
    }
    fs::path path(const std::string& module) const { return dir_.path() / (module + ".py"); }

private:
    sys::TempDir dir_{"warm-library"};
};

/// Which of these modules a standby for the script imports.
std::string imported(Bench& bench, const std::string& script, const std::string& names) {
    bench.pool.discard_all();
    bench.write("script.py", script);
    bench.prepare(bench.recipe({"script.py"}));
    std::string result;
    for (const char name : names) {
        if (fs::remove(bench.path(format("imported-{}", name)))) result += name;
    }
    return result;
}

/// What take() says when something has changed since the standby was made.
std::string why_not_taken(Bench& bench, const WarmRecipe& recipe) {
    Sink output(Stream::pipe, "");
    Sink errors(Stream::pipe, "");
    const std::optional<pid_t> pid = bench.take(recipe, output, errors);
    CHECK_FALSE(pid.has_value());
    if (pid) bench.outcome(*pid, output, errors);
    return bench.pool.why_cold();
}

}  // namespace

TEST_CASE("imports are done as far as nothing could have changed them") {
    Bench bench;
    Library library(bench);
    for (const std::string name : {"a", "b", "c", "d"}) library.write(name);
    bench.write("local.py", "import c\nopen('local-ran', 'w').close()\n");
    bench.write("quiet.py",
                "import os\nimport c\nX = os.path.join('a', 'b')\n"
                "if __name__ == '__main__':\n    import d\n");

    CHECK(imported(bench, "import a, b\nfrom c import *\n", "abcd") == "abc");
    CHECK(imported(bench, "import a\nimport os\nos.environ['X'] = '1'\nimport b\n", "ab") == "a");
    CHECK(imported(bench, "import a, sys\nsys.path.insert(0, 'x')\nimport b\n", "ab") == "a");
    CHECK(imported(bench, "import a\nprint(1)\nimport b\n", "ab") == "a");
    CHECK(imported(bench,
                   "import a\nX = 1\nY = [X, 'x']\ndef f(x=1):\n    import d\n"
                   "class C(dict):\n    z: int = 3\nimport b\n",
                   "abd") == "ab");
    CHECK(imported(bench, "import logging\nlog = logging.getLogger(__name__)\nimport b\n", "b") ==
          "b");
    CHECK(imported(bench,
                   "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\n"
                   "import b\n",
                   "ab") == "b");
    CHECK(imported(bench,
                   "import sys\nif sys.version_info >= (3, 8):\n    import a\nelse:\n"
                   "    import b\nif sys.argv:\n    import c\nimport d\n",
                   "abcd") == "a");
    CHECK(imported(bench,
                   "try:\n    import nowhere\nexcept ImportError:\n    import a\n"
                   "else:\n    import b\nfinally:\n    import c\n",
                   "abc") == "ac");
    CHECK(imported(bench, "if __name__ == '__main__':\n    import a\n    a.x()\n    import b\n",
                   "ab") == "a");
    // A module beside the script is read, and never run.
    CHECK(imported(bench, "import a, local, b\n", "abc") == "ac");
    CHECK(imported(bench, "import a, quiet, b\n", "abcd") == "abc");
    CHECK_FALSE(fs::exists(bench.path("local-ran")));
}

TEST_CASE("a script that sets variables before an import finds them obeyed") {
    Bench bench;
    Library library(bench);
    library.write("reads", "import os\nVALUE = os.environ.get('SETTING')\n");
    bench.write("script.py",
                "import os\nos.environ['SETTING'] = 'mine'\nimport reads\n"
                "print(reads.VALUE)\n");
    bench.same({"script.py"});
}

TEST_CASE("a variable that an import has read decides") {
    Bench bench;
    Library library(bench);
    library.write("reads",
                  "import os\nVALUE = os.environ.get('RANK')\n"
                  "os.environ.setdefault('ADDED', 'x')\n");
    bench.write("script.py", "import reads, os\nprint(reads.VALUE, list(os.environ))\n");
    bench.same({"script.py"});

    WarmRecipe recipe = bench.recipe({"script.py"});
    bench.prepare(recipe);
    REQUIRE(bench.pool.ready() == 1);
    std::ranges::replace(recipe.env, "RANK=0", "RANK=1");
    CHECK(why_not_taken(bench, recipe) == "an import has read RANK");

    library.write("reads", "import os\nALL = dict(os.environ)\n");
    bench.prepare(recipe);
    std::ranges::replace(recipe.env, "WORLD_SIZE=1", "WORLD_SIZE=2");
    CHECK(contains(why_not_taken(bench, recipe), "an import has read"));
}

TEST_CASE("a module of the script's folder that an import would have found instead") {
    Bench bench;
    Library library(bench);
    library.write("outer", "import inner\n");
    library.write("inner");
    bench.write("script.py", "import outer\n");
    bench.write("inner.py", "open('local-ran', 'w').close()\n");
    CHECK(contains(bench.why(bench.recipe({"script.py"})), "inner of the script's folder shadows"));
    CHECK_FALSE(fs::exists(bench.path("local-ran")));

    // A folder without __init__.py comes last in a search, so it shadows only what is nowhere.
    fs::remove(bench.path("inner.py"));
    bench.write("inner/data", "");
    bench.pool.discard_all();
    bench.same({"script.py"});
    library.write("outer", "try:\n    import nowhere\nexcept ImportError:\n    pass\n");
    bench.write("nowhere/data", "");
    bench.pool.discard_all();
    CHECK(contains(bench.why(bench.recipe({"script.py"})), "nowhere of the script's folder"));
}

TEST_CASE("a script or module that was changed meanwhile is started cold") {
    Bench bench;
    Library library(bench);
    library.write("a");
    bench.write("helper.py", "X = 1\n");
    bench.write("script.py", "import a\nimport helper\nprint(helper.X)\n");
    const WarmRecipe recipe = bench.recipe({"script.py"});
    bench.prepare(recipe);
    bench.write("script.py", "print('new')\n");
    CHECK(contains(why_not_taken(bench, recipe), "script.py was changed"));
    bench.write("script.py", "import a\nimport helper\nprint(helper.X)\n");
    bench.prepare(recipe);
    bench.write("helper.py", "X = 22\n");
    CHECK(contains(why_not_taken(bench, recipe), "helper.py was changed"));
    bench.prepare(recipe);
    library.write("a", "Y = 1\n");
    CHECK(contains(why_not_taken(bench, recipe), "a.py was changed"));
    bench.prepare(recipe);
    bench.write("a.py", "");
    CHECK(contains(why_not_taken(bench, recipe), "a of the script's folder was changed"));
    fs::remove(bench.path("a.py"));
    bench.prepare(recipe);
    REQUIRE(bench.pool.ready() == 1);
    fs::remove(bench.path("script.py"));
    CHECK(contains(why_not_taken(bench, recipe), "script.py was changed"));
    bench.prepare(recipe);
    CHECK(contains(bench.pool.why_cold(), "FileNotFoundError"));
}

TEST_CASE("imports that leave more than modules behind are not kept waiting") {
    Bench bench;
    Library library(bench);
    bench.write("script.py", "import a\n");
    const auto why = [&bench, &library](const std::string& text) {
        library.write("a", text);
        bench.pool.discard_all();
        return bench.why(bench.recipe({"script.py"}));
    };
    CHECK(contains(why("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), "
                       "daemon=True).start()\n"),
                   "has started a thread"));
    CHECK(contains(why("import os\nCOPY = os.dup(2)\n"), "keeps a copy of descriptor 2"));
    CHECK(contains(why("raise ValueError('broken')\n"), "ValueError: broken"));
    CHECK(contains(why("import nothing_like_this\n"), "nothing_like_this"));
    CHECK(contains(why("import os\nos.write(2, b'it hurts\\n')\nos._exit(4)\n"), "it hurts"));
}

TEST_CASE("who asks whether a stream is a terminal gets the answer of a cold start") {
    Bench bench;
    Library library(bench);
    library.write("asks", "import os, sys\nX = sys.stdout.isatty(), os.isatty(2), os.isatty(0)\n");
    bench.write("script.py", "import asks, sys\nprint(asks.X, sys.stdout.isatty())\n");
    WarmRecipe recipe = bench.recipe({"script.py"});
    // The first start shows what the streams are.
    for (const Stream kind : {Stream::pipe, Stream::terminal, Stream::file}) {
        Sink output(kind, bench.path(".out"));
        Sink errors(kind, bench.path(".err"));
        CHECK_FALSE(bench.take(recipe, output, errors).has_value());
        bench.same({"script.py"}, kind);
        bench.prepare(recipe);
    }
    Sink output(Stream::terminal, "");
    Sink errors(Stream::pipe, "");
    CHECK_FALSE(bench.take(recipe, output, errors).has_value());
    CHECK(contains(bench.pool.why_cold(), "is a terminal"));
}

TEST_CASE("standbys follow their recipes") {
    Bench bench;
    bench.write("script.py", "import json\n");
    WarmRecipe recipe = bench.recipe({"script.py", "x"});
    int settled = 0;
    bench.pool.on_settled([&settled] { ++settled; });
    WarmRecipe other = recipe;
    other.local_rank = 1;
    bench.pool.prepare({recipe, other});
    CHECK_FALSE(bench.pool.settled());
    const auto until_called = [&bench, &settled](int times) {
        const Deadline patience = Deadline::in(kPatience);
        while (settled < times && !patience.passed()) bench.poller.run_once(patience, {});
        CHECK(settled == times);
    };
    until_called(1);
    CHECK(bench.pool.ready() == 2);
    // The probe's process may still be among them for a moment.
    const auto standbys = [&bench] {
        const Deadline patience = Deadline::in(kPatience);
        while (bench.pool.pids().size() > static_cast<std::size_t>(bench.pool.ready()) &&
               !patience.passed())
            bench.poller.run_once(patience, {});
        std::vector<pid_t> pids = bench.pool.pids();
        std::ranges::sort(pids);
        return pids;
    };
    // What belongs to a generation does not replace them; anything else does.
    const auto has = [&standbys](pid_t pid) { return std::ranges::count(standbys(), pid) == 1; };
    const pid_t first = standbys().front();
    const pid_t last = standbys().back();
    recipe.env.push_back("TORCHELASTIC_RESTART_COUNT=1");
    bench.pool.prepare({recipe, other});
    until_called(2);
    CHECK(has(first));
    CHECK(has(last));
    recipe.env.push_back("NCCL_DEBUG=INFO");
    Sink output(Stream::pipe, "");
    Sink errors(Stream::pipe, "");
    CHECK_FALSE(bench.take(recipe, output, errors).has_value());
    CHECK(bench.pool.why_cold() == "another environment");
    bench.pool.prepare({recipe});
    until_called(3);
    CHECK(bench.pool.ready() == 1);

    // One that dies is missed, and made anew when it is asked for.
    ::kill(standbys().back(), SIGKILL);
    const Deadline patience = Deadline::in(kPatience);
    while (bench.pool.ready() > 0 && !patience.passed()) bench.poller.run_once(patience, {});
    CHECK(bench.pool.ready() == 0);
    CHECK(bench.pool.settled());
    CHECK(contains(bench.pool.why_cold(), "standby has ended"));
    bench.pool.prepare({recipe});
    until_called(4);
    CHECK(bench.pool.ready() == 1);
    bench.pool.discard_all();
    CHECK(bench.pool.ready() == 0);
    CHECK(bench.pool.settled());
}

TEST_CASE("a standby whose launcher is gone, or that is not told to run, ends") {
    Bench bench;
    bench.write("script.py", "open('ran', 'w').close()\n");
    const WarmRecipe recipe = bench.recipe({"script.py"});
    std::vector<pid_t> pids;
    {
        WarmPool pool(bench.poller);
        pool.prepare({recipe});
        const Deadline patience = Deadline::in(kPatience);
        while (!pool.settled() && !patience.passed()) bench.poller.run_once(patience, {});
        REQUIRE(pool.ready() == 1);
        pids = pool.pids();
    }
    for (const pid_t pid : pids) CHECK(::kill(pid, 0) != 0);
    CHECK_FALSE(fs::exists(bench.path("ran")));
}

TEST_CASE("the hook is written anew when a cleaner has taken it") {
    Bench bench;
    bench.write("script.py", "import json\nopen('ran', 'w').close()\n");
    const WarmRecipe recipe = bench.recipe({"script.py"});
    bench.prepare(recipe);
    REQUIRE(bench.pool.ready() == 1);
    const std::string env = sys::read_file(format("/proc/{}/environ", bench.pool.pids().back()));
    const std::size_t at = env.find("PYTHONPATH=") + 11;
    REQUIRE(at != std::string::npos);
    const fs::path folder = env.substr(at, env.find('\0', at) - at);
    REQUIRE(contains(folder, "trainyard-warm"));
    fs::remove(folder / "sitecustomize.py");
    bench.pool.discard_all();
    bench.prepare(recipe);
    CHECK(bench.pool.ready() == 1);
    fs::remove_all(folder);
    bench.pool.discard_all();
    bench.prepare(recipe);
    CHECK(bench.pool.ready() == 1);
    CHECK_FALSE(fs::exists(bench.path("ran")));
}
