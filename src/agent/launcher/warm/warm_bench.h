// SPDX-License-Identifier: Apache-2.0
// A folder, an interpreter and a pool: the same script as a cold start and as a standby. Shared by
// the tests of the pool and of equivalence.
//
// TRAINYARD_TEST_PYTHON names the interpreter; else the project's own environment, else python3.
#pragma once

#include "agent/launcher/warm/warm_pool.h"
#include "agent/launcher/workers/workers.h"
#include "base/error.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent::testing {

namespace fs = sys::fs;
using Strings = std::vector<std::string>;

inline constexpr seconds kPatience(120);  // sanitizers, and machines that others use, too

inline std::string interpreter() {
    if (const char* chosen = std::getenv("TRAINYARD_TEST_PYTHON")) return chosen;
    const fs::path own = fs::path(TY_SOURCE_DIR) / ".venv/train/bin/python";
    if (fs::exists(own)) return own;
    return fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
}

/// A bare environment: what a test needs to be the same for both ways, and no more.
inline Strings environment(Strings more = {}) {
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

enum class Stream { file, pipe, terminal };

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
    Sink(Stream kind, const fs::path& path) {
        if (kind == Stream::pipe) {
            pipe_ = sys::make_pipe();
        } else if (kind == Stream::file) {
            path_ = path;
            pipe_.write = sys::open_write(path, O_TRUNC);
        } else {
            pipe_.read = sys::Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
            REQUIRE(::grantpt(pipe_.read.get()) == 0);
            REQUIRE(::unlockpt(pipe_.read.get()) == 0);
            pipe_.write =
                sys::Fd(::open(::ptsname(pipe_.read.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
        }
    }
    int fd() const { return pipe_.write.get(); }
    /// A pipe or terminal, until the last writer is gone.
    std::string drain() {
        pipe_.write.close();
        std::string result;
        if (!pipe_.read.is_open()) return result;
        std::array<std::byte, 4096> buffer;
        while (true) {
            const ssize_t got = ::read(pipe_.read.get(), buffer.data(), buffer.size());
            if (got <= 0) return result;  // a terminal says EIO in the end
            result.append(reinterpret_cast<const char*>(buffer.data()),
                          static_cast<std::size_t>(got));
        }
    }

    /// A file, after the end of its writer.
    std::string file() const { return path_.empty() ? "" : sys::read_file(path_); }

private:
    fs::path path_;  ///< empty for the other kinds
    sys::Pipe pipe_;
};

inline sys::Exit reap(pid_t pid) {
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
        result.output = output.drain();
        result.errors = errors.drain();
        result.exit = reap(pid);
        result.output += output.file();
        result.errors += errors.file();
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

inline bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace ty::agent::testing
