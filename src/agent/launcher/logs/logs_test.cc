// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/logs/logs.h"
#include "agent/launcher/logs/console.h"
#include "agent/launcher/logs/tail.h"
#include "base/error.h"
#include "base/format.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>

using namespace ty;
using namespace ty::agent;

namespace {

/// Standard output and error of this process go to files while this lives; what arrived is read
/// from them.
class CapturedConsole {
public:
    CapturedConsole() {
        for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
            saved_[static_cast<std::size_t>(fd - 1)] = sys::Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
            const sys::Fd file = sys::open_write(path(fd), O_TRUNC | O_APPEND);
            REQUIRE(::dup2(file.get(), fd) == fd);
        }
    }
    ~CapturedConsole() {
        for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
            ::dup2(saved_[static_cast<std::size_t>(fd - 1)].get(), fd);
        }
    }
    std::string out() const { return sys::read_file(path(STDOUT_FILENO)); }
    std::string err() const { return sys::read_file(path(STDERR_FILENO)); }

private:
    sys::fs::path path(int fd) const { return dir_.path() / format("console{}", fd); }
    sys::TempDir dir_;
    std::array<sys::Fd, 2> saved_;
};

LaunchOptions options_in(const sys::TempDir& dir, int workers = 2) {
    LaunchOptions options;
    options.log_dir = (dir.path() / "logs" / "deep").string();
    options.workers = workers;
    options.rdzv_id = "job";
    return options;
}

void say(int fd, std::string_view text) {
    REQUIRE(fd >= 0);
    sys::write_all(fd, text);
}

std::string cut(LineCutter cutter, std::initializer_list<std::string_view> pieces,
                std::string* filtered = nullptr) {
    LineCutter::Out out;
    for (std::string_view piece : pieces) cutter.cut(piece, false, out);
    cutter.cut({}, true, out);
    if (filtered != nullptr) *filtered = out.filtered;
    return out.console;
}

}  // namespace

TEST_CASE("every line gets the prefix, however the reads fall") {
    const LineCutter cutter("[a0]:", {});
    CHECK(cut(cutter, {"one\ntw", "o\n\nth", "ree"}) == "[a0]:one\n[a0]:two\n[a0]:\n[a0]:three");
    CHECK(cut(cutter, {}) == "");
    CHECK(cut(cutter, {"\n"}) == "[a0]:\n");
}

TEST_CASE("carriage returns end lines, as in torchrun's tee") {
    const LineCutter cutter("p:", {});
    CHECK(cut(cutter, {"10%\r20%\r", "\n30%\r\n", "x\r"}) == "p:10%\np:20%\np:30%\np:x\n");
    CHECK(cut(cutter, {"a\r", "b\n"}) == "p:a\np:b\n");
}

TEST_CASE("a very long line is passed on in pieces with one prefix") {
    const std::string piece(700'000, 'x');
    const std::string text = cut(LineCutter("p:", {}), {piece, piece, piece, "\nnext\n"});
    CHECK(text == "p:" + piece + piece + piece + "\np:next\n");
}

TEST_CASE("the lines do not depend on where the reads end") {
    constexpr std::string_view kText = "ab\r\n\r\rc\n\nd\r\ne\rf";
    const std::string whole = cut(LineCutter("p:", {"c"}), {kText});
    CHECK(whole == "p:ab\np:\np:\np:c\np:\np:d\np:e\np:f");
    for (std::size_t first = 0; first <= kText.size(); ++first) {
        for (std::size_t second = first; second <= kText.size(); ++second) {
            CAPTURE(first);
            CAPTURE(second);
            CHECK(cut(LineCutter("p:", {}),
                      {kText.substr(0, first), kText.substr(first, second - first),
                       kText.substr(second)}) == whole);
        }
    }
}

TEST_CASE("lines with one of the texts are copied with their prefix") {
    std::string filtered;
    cut(LineCutter("p:", {"apple", "a,b"}), {"an apple\npear\nxa,", "by\n"}, &filtered);
    CHECK(filtered == "p:an apple\np:xa,by\n");
    cut(LineCutter("p:", {""}), {"x\ny\n"}, &filtered);
    CHECK(filtered == "p:x\np:y\n");
}

TEST_CASE("streams that are not redirected stay ours, but every rank has a folder") {
    const sys::TempDir dir;
    LaunchLogs logs(options_in(dir));
    logs.begin(0, 0, "h");
    CHECK(logs.stdout_fd(0) == -1);
    CHECK(logs.stderr_fd(1) == -1);
    CHECK(logs.stderr_path(0).empty());
    CHECK(logs.bytes_written(0) == -1);
    CHECK_FALSE(logs.has_tee());
    CHECK_FALSE(logs.drain(true));
    const auto run = logs.run_folder();
    CHECK(run.filename().string().starts_with("job_"));
    CHECK(run.parent_path() == dir.path() / "logs" / "deep");
    CHECK(logs.error_file(1) == run / "attempt_0" / "1" / "error.json");
    CHECK(sys::fs::is_directory(run / "attempt_0" / "0"));
    struct stat facts {};
    REQUIRE(::stat(run.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0700);
}

TEST_CASE("a number that comes again gets a folder of its own") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir, 1);
    options.redirects.all = 3;
    LaunchLogs logs(options);
    logs.begin(1, 0, "h");
    say(logs.stdout_fd(0), "first\n");
    CHECK(logs.bytes_written(0) == 6);
    logs.begin(1, 0, "h");
    CHECK(logs.bytes_written(0) == 0);
    CHECK(sys::read_file(logs.run_folder() / "attempt_1" / "0" / "stdout.log") == "first\n");
    CHECK(sys::fs::exists(logs.run_folder() / "attempt_1.2" / "0" / "stderr.log"));
}

TEST_CASE("redirects by rank go to files, tee to files and the console") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir);
    options.redirects.by_rank = {{0, 1}};
    options.tee.by_rank = {{1, 3}};
    const CapturedConsole console;
    LaunchLogs logs(options);
    CHECK(logs.has_tee());
    logs.begin(0, 4, "h");
    CHECK(logs.stderr_fd(0) == -1);
    say(logs.stdout_fd(0), "quiet\n");
    say(logs.stdout_fd(1), "loud\npart");
    say(logs.stderr_fd(1), "error\n");
    CHECK(logs.drain(false));
    CHECK(console.out() == "[default1]:loud\n");
    say(logs.stdout_fd(1), "ly\nlast");
    logs.drain(true);
    CHECK(console.out() == "[default1]:loud\n[default1]:partly\n[default1]:last");
    CHECK(console.err() == "[default1]:error\n");
    const auto folder = logs.run_folder() / "attempt_0";
    CHECK(sys::read_file(folder / "0" / "stdout.log") == "quiet\n");
    CHECK(sys::read_file(folder / "1" / "stdout.log") == "loud\npartly\nlast");
    CHECK(logs.stderr_path(1) == folder / "1" / "stderr.log");
}

TEST_CASE("a rank that is filtered out keeps its files and loses the console") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir, 3);
    options.tee.by_rank = {{0, 1}, {1, 1}};
    options.local_ranks_filter = {0};
    const CapturedConsole console;
    LaunchLogs logs(options);
    logs.begin(0, 0, "h");
    say(logs.stdout_fd(0), "zero\n");
    say(logs.stdout_fd(1), "one\n");
    say(logs.stdout_fd(2), "nowhere\n");
    say(logs.stderr_fd(1), "nowhere\n");
    CHECK(logs.stderr_fd(0) == -1);
    CHECK(logs.stderr_path(1).empty());
    CHECK(logs.bytes_written(2) == -1);
    logs.drain(true);
    CHECK(console.out() == "[default0]:zero\n");
    const auto folder = logs.run_folder() / "attempt_0";
    CHECK(sys::read_file(folder / "1" / "stdout.log") == "one\n");
    CHECK_FALSE(sys::fs::exists(folder / "2" / "stdout.log"));
}

TEST_CASE("the prefix template knows role, ranks and host") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir);
    options.tee.by_rank = {{1, 1}};
    options.role = "trainer";
    options.log_line_prefix_template = "<${role_name} $local_rank ${rank} ${hostname} ${x}> ";
    const CapturedConsole console;
    LaunchLogs logs(options);
    logs.begin(0, 4, "node7");
    say(logs.stdout_fd(1), "x\n");
    logs.drain(true);
    CHECK(console.out() == "<trainer 1 5 node7 ${x}> x\n");
}

TEST_CASE("matching lines of all ranks meet in one file of the attempt") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir);
    options.tee.all = 3;
    options.duplicate_stdout_filters = {"loss"};
    const CapturedConsole console;
    LaunchLogs logs(options);
    logs.begin(0, 0, "h");
    say(logs.stdout_fd(0), "loss 1\nother\n");
    say(logs.stdout_fd(1), "loss 2\n");
    say(logs.stderr_fd(1), "loss 3\n");
    logs.drain(true);
    const auto folder = logs.run_folder() / "attempt_0";
    CHECK(sys::read_file(folder / "filtered_stdout.log") ==
          "[default0]:loss 1\n[default1]:loss 2\n");
    CHECK_FALSE(sys::fs::exists(folder / "filtered_stderr.log"));
}

TEST_CASE("the end of an earlier generation still reaches the console, in order") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir, 1);
    options.tee.all = 1;
    const CapturedConsole console;
    {
        LaunchLogs logs(options);
        logs.begin(0, 0, "h");
        say(logs.stdout_fd(0), "old without end");
        logs.begin(1, 0, "h");
        say(logs.stdout_fd(0), "new\n");
        logs.drain(false);
        say(logs.stdout_fd(0), "end");
    }
    CHECK(console.out() == "[default0]:old without end[default0]:new\n[default0]:end");
}

TEST_CASE("a log folder of /dev/null keeps nothing and hides nothing") {
    LaunchOptions options;
    options.log_dir = "/dev/null";
    options.redirects.all = options.tee.all = 3;
    LaunchLogs logs(options);
    logs.begin(0, 0, "h");
    CHECK(logs.stdout_fd(0) == -1);
    CHECK(logs.error_file(0).empty());
    CHECK_FALSE(logs.has_tee());
    CHECK(logs.run_folder().empty());
}

TEST_CASE("a log folder that is a file is refused by name") {
    const sys::TempDir dir;
    LaunchOptions options = options_in(dir);
    options.log_dir = (dir.path() / "file").string();
    sys::write_file(options.log_dir, "");
    CHECK_THROWS_WITH(LaunchLogs{options}, doctest::Contains(options.log_dir.c_str()));
}

TEST_CASE("a console that nobody reads does not stop the launcher, and loses nothing") {
    sys::Pipe pipe = sys::make_pipe();
    Console console(pipe.write.get());
    const std::string text(300'000, 'x');
    console.put(text);
    CHECK_FALSE(console.is_idle());
    CHECK_FALSE(console.push());
    CHECK_FALSE(console.wait(milliseconds(0)));
    std::string got;
    std::array<std::byte, 65536> buffer{};
    while (got.size() < text.size()) {
        const std::size_t count = sys::read_some(pipe.read.get(), buffer);
        REQUIRE(count > 0);
        got.append(reinterpret_cast<const char*>(buffer.data()), count);
        console.push();
    }
    CHECK(got == text);
    CHECK(console.is_idle());
    // The flag is set on an opening of its own: whoever shares the pipe with us is not affected.
    CHECK((::fcntl(pipe.write.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a console whose reader is gone swallows lines") {
    sys::Pipe pipe = sys::make_pipe();
    Console console(pipe.write.get());
    pipe.read.close();
    console.put("x");
    CHECK(console.is_closed());
    console.put("y");
    CHECK(console.is_idle());
}

TEST_CASE("a socket as console is written without blocking") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const sys::Fd ours(ends[0]);
    sys::Fd theirs(ends[1]);
    Console console(ours.get());
    console.put(std::string(4'000'000, 'x'));
    CHECK_FALSE(console.is_idle());
    theirs.close();
    console.push();
    CHECK(console.is_closed());
    CHECK(console.is_idle());
}
