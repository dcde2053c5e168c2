// SPDX-License-Identifier: Apache-2.0
// Standby interpreters against cold starts: the same scripts, in both ways, must not be able to
// tell the difference. Each prints what it sees; the texts, the exit code and the signal are
// compared byte by byte. Longer scripts lie in tests/warm/.
#include "agent/launcher/warm/warm_bench.h"

using namespace ty;
using namespace ty::agent::testing;

namespace {

/// Standard input of the test itself, which workers inherit.
class Input {
public:
    explicit Input(const fs::path& path) : before_(::dup(0)) {
        const sys::Fd file = sys::open_read(path);
        ::dup2(file.get(), 0);
    }
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    ~Input() { ::dup2(before_.get(), 0); }

private:
    sys::Fd before_;
};

std::string tests_file(const std::string& name) {
    return fs::path(TY_SOURCE_DIR) / "tests/warm" / name;
}

/// tests/warm/<name> as a file of the bench's own folder.
void copy_script(Bench& bench, const std::string& name) {
    bench.write(name, sys::read_file(tests_file(name)));
}

bool has_torch(Bench& bench) {
    const sys::Output probe = sys::run(
        {.argv = {bench.python, "-c", "import importlib.util as u; print(u.find_spec('torch'))"}},
        Deadline::in(kPatience));
    if (contains(probe.text, "ModuleSpec")) return true;
    MESSAGE("skipped: " << bench.python << " has no torch");
    return false;
}

/// Each start reads its standard input from the beginning: a file is opened anew for both ways.
void same_with_input(Bench& bench, const Strings& script, Stream kind) {
    bench.write("input.txt", "a line\nanother\n");
    Outcome a;
    Outcome b;
    {
        const Input input(bench.path("input.txt"));
        a = bench.cold(script, kind);
    }
    {
        const Input input(bench.path("input.txt"));
        b = bench.warm(script, kind);
    }
    CHECK(a.output == b.output);
    CHECK(a.errors == b.errors);
    CHECK(a.exit.code == b.exit.code);
    CHECK(a.exit.signal == b.exit.signal);
}

}  // namespace

TEST_CASE("a script sees the same interpreter, process and environment") {
    Bench bench;
    copy_script(bench, "state.py");
    for (const Stream kind : {Stream::pipe, Stream::file, Stream::terminal}) {
        CAPTURE(static_cast<int>(kind));
        same_with_input(bench, {"state.py", "one", "--two=3", ""}, kind);
    }
    const Outcome outcome = bench.warm({"state.py"});
    CHECK(outcome.exit.code == 7);
    CHECK(contains(outcome.output, "atexit 2 __main__\natexit 1 __main__\natexit 0 __main__"));
}

TEST_CASE("a script by its absolute path, through a link, and in another folder") {
    Bench bench;
    copy_script(bench, "state.py");
    bench.write("elsewhere/x", "");
    fs::create_symlink("../state.py", bench.path("elsewhere/link.py"));
    same_with_input(bench, {bench.path("state.py")}, Stream::pipe);
    same_with_input(bench, {"elsewhere/link.py"}, Stream::pipe);
    same_with_input(bench, {tests_file("state.py")}, Stream::pipe);
}

TEST_CASE("PYTHONPATH unset, empty and set") {
    Bench bench;
    const sys::TempDir library("warm-library");
    copy_script(bench, "state.py");
    for (const std::string& value :
         {std::string(), library.path().string(), library.path().string() + ":",
          ":" + library.path().string()}) {
        CAPTURE(value);
        bench.env = environment({"PYTHONPATH=" + value, "LAST=1"});
        same_with_input(bench, {"state.py"}, Stream::pipe);
    }
}

TEST_CASE("options of the interpreter given by the environment") {
    Bench bench;
    copy_script(bench, "state.py");
    for (const std::string variable :
         {"PYTHONFAULTHANDLER=1", "PYTHONWARNINGS=error::UserWarning", "PYTHONDEVMODE=1",
          "PYTHONUTF8=0", "PYTHONSAFEPATH=1", "PYTHONIOENCODING=latin-1:replace",
          "PYTHONNOUSERSITE=1", "LC_ALL=C", "PYTHONHASHSEED=0"}) {
        CAPTURE(variable);
        bench.env = environment({variable});
        same_with_input(bench, {"state.py"}, Stream::pipe);
    }
}

TEST_CASE("a module run with -m") {
    Bench bench;
    bench.write("package/__init__.py", "import logging\nNAME = 'package'\n");
    bench.write("package/part.py", "import decimal\nfrom . import NAME\n");
    bench.write("package/__main__.py", "from package.tool import *\n");
    bench.write("package/tool.py", "from . import part\nfrom .part import NAME\n" +
                                       sys::read_file(tests_file("state.py")));
    copy_script(bench, "state.py");
    same_with_input(bench, {"-m", "package.tool", "a", "-b"}, Stream::pipe);
    same_with_input(bench, {"-m", "state", "a"}, Stream::pipe);
    same_with_input(bench, {"-m", "package"}, Stream::pipe);
}

TEST_CASE("the user's own sitecustomize and usercustomize run once, and first") {
    Bench bench;
    const sys::TempDir library("warm-library");
    bench.python = fs::canonical(bench.python);  // environments have no user site
    bench.env = environment({"PYTHONPATH=" + library.path().string()});
    copy_script(bench, "state.py");
    const auto customize = [&library](const std::string& name, const std::string& more) {
        sys::write_file(library.path() / (name + "customize.py"),
                        "import os, sys\nprint('" + name +
                            "', __name__, __file__, 'decimal' in sys.modules, sys.argv, "
                            "sorted(os.environ), sys.path)\n" +
                            more);
    };
    customize("site", "os.environ['BY_SITE'] = '1'\nsys.path.append('/by/site')\n");
    customize("user", "os.environ['BY_USER'] = '1'\n");
    bench.write("script.py",
                "import decimal, sys, os\nprint(os.environ, sys.path, "
                "[sys.modules.get(n) for n in ('sitecustomize', 'usercustomize')])\n");
    bench.same({"script.py"});
    same_with_input(bench, {"state.py"}, Stream::pipe);
    CHECK(contains(bench.warm({"script.py"}).output, "site sitecustomize"));

    customize("site", "raise ValueError('broken')\n");
    bench.env.push_back("OTHER=1");
    CHECK(contains(bench.why(bench.recipe({"script.py"})), "ValueError: broken"));
}

TEST_CASE("what imports print comes when the script starts") {
    Bench bench;
    const sys::TempDir library("warm-library");
    sys::write_file(library.path() / "noisy.py",
                    "import os\nprint('hello', flush=True)\n"
                    "os.write(1, b'raw\\n')\n");
    sys::write_file(library.path() / "warns.py", "import warnings\nwarnings.warn('old')\n");
    bench.env = environment({"PYTHONPATH=" + library.path().string()});
    bench.write("noisy_script.py", "import noisy\nprint('script')\n");
    bench.write("warning_script.py",
                "import warns\nimport sys\nprint('script', file=sys.stderr)\n");
    bench.write("both.py", "import noisy\nimport warns\n");
    for (const Stream kind : {Stream::pipe, Stream::file, Stream::terminal}) {
        bench.same({"noisy_script.py"}, kind);
        bench.same({"warning_script.py"}, kind);
    }
    CHECK(
        contains(bench.why(bench.recipe({"both.py"})), "both standard output and standard error"));
}

TEST_CASE("tracebacks and exit codes") {
    Bench bench;
    bench.write("helper.py", "import decimal\n\ndef fail(x):\n    return decimal.Decimal(x) / 0\n");
    bench.write("fails.py",
                "import json\nimport helper\n\ndef main():\n    try:\n        helper.fail(1)\n"
                "    except ArithmeticError as error:\n        raise KeyError('x') from error\n\n"
                "if __name__ == '__main__':\n    main()\n");
    bench.write("message.py", "import sys, json\nsys.exit('a message')\n");
    bench.write("code.py", "import json\nraise SystemExit(200)\n");
    bench.write("killed.py", "import os, signal, json\nos.kill(os.getpid(), signal.SIGKILL)\n");
    bench.write("aborts.py", "import os, json\nos.abort()\n");
    bench.write("import_fails.py", "import json\nx = 1\nprint(x)\nimport no_such_module\n");
    bench.write("name.py", "import json\nprint(undefined)\n");
    bench.write("group.py",
                "import threading\nt = threading.Thread(target=lambda: 1 / 0)\n"
                "t.start()\nt.join()\n");
    for (const std::string script : {"fails.py", "message.py", "code.py", "killed.py", "aborts.py",
                                     "import_fails.py", "name.py"}) {
        CAPTURE(script);
        bench.same({script});
    }
    bench.write("script.py", "import json\nprint('not closed'\n");
    CHECK(contains(bench.why(bench.recipe({"script.py"})), "SyntaxError"));
}

TEST_CASE("signals reach a warm script as a cold one") {
    Bench bench;
    bench.write("waits.py",
                "import signal, sys, time\n"
                "if 'handle' in sys.argv:\n"
                "    signal.signal(signal.SIGTERM, lambda *a: sys.exit('handled'))\n"
                "open('up', 'w').close()\nwhile True:\n    time.sleep(60)\n");
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT}) {
        CAPTURE(number);
        bench.while_running = [&bench, number](pid_t pid) {
            const Deadline patience = Deadline::in(kPatience);
            while (!fs::exists("up") && !patience.passed())
                sys::pause(Deadline::in(milliseconds(2)), {});
            // Asleep, so that the line in the traceback is the same.
            sys::ProcessStat stat;
            while (sys::read_process(pid, stat) && stat.state != 'S' && !patience.passed())
                sys::pause(Deadline::in(milliseconds(1)), {});
            fs::remove(bench.path("up"));
            ::kill(pid, number);
        };
        bench.same({"waits.py"});
        if (number == SIGTERM) bench.same({"waits.py", "handle"});
    }
}

TEST_CASE("a fault is reported by faulthandler with the same stacks") {
    Bench bench;
    bench.write("crashes.py",
                "import faulthandler, json, decimal\nfaulthandler.enable()\n"
                "def inner():\n    faulthandler._sigsegv()\ninner()\n");
    Outcome a = bench.cold({"crashes.py"});
    Outcome b = bench.warm({"crashes.py"});
    for (Outcome* outcome : {&a, &b}) {
        // "Current thread 0x00007f… (most recent call first)"
        const std::size_t at = outcome->errors.find("0x");
        REQUIRE(at != std::string::npos);
        outcome->errors.erase(at, outcome->errors.find(' ', at) - at);
    }
    CHECK(a == b);
    CHECK(a.errors == b.errors);
    CHECK(contains(b.errors, "line 4 in inner"));
    CHECK(b.exit.signal == SIGSEGV);
}

TEST_CASE("multiprocessing by fork, spawn and forkserver") {
    Bench bench;
    copy_script(bench, "children.py");
    for (const std::string method : {"fork", "spawn", "forkserver"}) {
        CAPTURE(method);
        Outcome a = bench.cold({"children.py", method});
        Outcome b = bench.warm({"children.py", method});
        CHECK(a.output == b.output);
        CHECK(a.errors == b.errors);
        CHECK(a.exit.code == b.exit.code);
        CHECK(contains(b.output, "exit 0"));
    }
}

TEST_CASE("torch trains the same, with worker processes for its data") {
    Bench bench;
    if (!has_torch(bench)) return;
    copy_script(bench, "loader.py");
    for (const std::string method : {"fork", "spawn"}) {
        CAPTURE(method);
        bench.same({"loader.py", method});
    }
}

TEST_CASE("the modules of a script with torch are those of a cold start, in the same order") {
    Bench bench;
    if (!has_torch(bench)) return;
    copy_script(bench, "modules.py");
    bench.same({"modules.py"});
}
