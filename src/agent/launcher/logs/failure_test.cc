// SPDX-License-Identifier: Apache-2.0
// The summaries are what torchrun 2.13 printed for the same failures.
#include "agent/launcher/logs/failure.h"
#include "base/json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdlib>
#include <ctime>

using namespace ty;
using namespace ty::agent;
using rendezvous::FailureKind;

namespace {

constexpr const char* kRecorded =
    R"({"message": {"message": "ValueError: boom\nsecond", "extraInfo": {"py_callstack": )"
    R"("Traceback (most recent call last):\n  File \"/s.py\", line 5, in main\n)"
    R"(ValueError: boom\nsecond\n", "timestamp": "1795275586"}}})";

ErrorFile error_file(const std::string& text) {
    const sys::TempDir dir;
    sys::write_file(dir.path() / "error.json", text);
    const auto file = read_error_file(dir.path() / "error.json");
    REQUIRE(file.has_value());
    return *file;
}

/// "2026-11-21_15:39:46" in this process's zone, as the summary has it.
std::string shown(long long epoch) {
    const std::time_t time = epoch;
    char text[32];
    REQUIRE(std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", std::localtime(&time)) > 0);
    return text;
}

WorkerFailure killed(int rank, int signal) {
    WorkerFailure failure;
    failure.rank = failure.local_rank = rank;
    failure.pid = 8573;
    failure.exit.signal = signal;
    failure.when = from_epoch_seconds(1795275587);
    failure.error_file_path = "/l/0/error.json";
    return failure;
}

WorkerFailure exited(int rank, int code) {
    WorkerFailure failure = killed(rank, 0);
    failure.exit.code = code;
    return failure;
}

}  // namespace

TEST_CASE("the summary of a recorded exception beside a stopped worker is torchrun's") {
    WorkerFailure root = exited(1, 1);
    root.pid = 8574;
    root.error_file = error_file(kRecorded);
    root.error_file_path = "/l/1/error.json";
    root.when = from_epoch_seconds(1795275586);
    const std::string text = failure_summary("fail.py", "localhost", {root, killed(0, SIGTERM)});
    const std::string bar(54, '='), section(54, '-');
    CHECK(text == "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + bar +
                      "\nfail.py FAILED\n" + section +
                      "\nFailures:\n"
                      "[1]:\n"
                      "  time      : " +
                      shown(1795275587) +
                      "\n"
                      "  host      : localhost\n"
                      "  rank      : 0 (local_rank: 0)\n"
                      "  exitcode  : -15 (pid: 8573)  (SIGTERM)\n"
                      "  error_file: <N/A>\n"
                      "  traceback : Signal 15 (SIGTERM) received by PID 8573\n" +
                      section +
                      "\nRoot Cause (first observed failure):\n"
                      "[0]:\n"
                      "  time      : " +
                      shown(1795275586) +
                      "\n"
                      "  host      : localhost\n"
                      "  rank      : 1 (local_rank: 1)\n"
                      "  exitcode  : 1 (pid: 8574) \n"
                      "  error_file: /l/1/error.json\n"
                      "  traceback : Traceback (most recent call last):\n"
                      "    File \"/s.py\", line 5, in main\n"
                      "  ValueError: boom\n"
                      "  second\n"
                      "  \n" +
                      bar + "\n");
}

TEST_CASE("a lone exit code is shown with the hint how to get a traceback") {
    const std::string text = failure_summary("a.py", "h", {exited(0, 3)});
    CHECK(text.find("Failures:\n  <NO_OTHER_FAILURES>\n") != text.npos);
    CHECK(text.find("  exitcode  : 3 (pid: 8573) \n  error_file: <N/A>\n"
                    "  traceback : To enable traceback see: "
                    "https://pytorch.org/docs/stable/elastic/errors.html\n") != text.npos);
}

TEST_CASE("a plain text message is shown as it is, an object without a callstack by its message") {
    WorkerFailure plain = exited(0, 1);
    plain.error_file = error_file(R"({"message": "one\ntwo", "timestamp": 5})");
    CHECK(plain.error_file->timestamp == 5);
    CHECK(failure_summary("a", "h", {plain}).find("traceback : one\ntwo\n") != std::string::npos);
    WorkerFailure object = exited(0, 1);
    object.error_file = error_file(R"({"message": {"message": "one\ntwo", "extraInfo": {}}})");
    CHECK(failure_summary("a", "h", {object}).find("traceback : one\n  two\n") !=
          std::string::npos);
}

TEST_CASE("the bar is as wide as the widest line, at most 60") {
    WorkerFailure failure = exited(0, 1);
    failure.error_file = error_file(R"({"message": "short"})");
    failure.error_file_path = "/e";
    // "  time      : 2026-11-21_15:39:46" is the widest line here.
    const std::string text = failure_summary("a", "h", {failure});
    CHECK(text.find("\n" + std::string(33, '=') + "\na FAILED\n") != text.npos);
    CHECK(failure_summary("a", "h", {}).empty());
}

TEST_CASE("an error file that is absent, empty, foreign or too large is none") {
    const sys::TempDir dir;
    const auto path = dir.path() / "error.json";
    CHECK_FALSE(read_error_file(path).has_value());
    CHECK_FALSE(read_error_file("").has_value());
    for (const char* text : {"", " \n", "{", "[1]", "{}", R"({"message": 3})"}) {
        CAPTURE(text);
        sys::write_file(path, text);
        CHECK_FALSE(read_error_file(path).has_value());
    }
    sys::write_file(path, "{\"message\": \"" + std::string(2u << 20, 'x') + "\"}");
    CHECK_FALSE(read_error_file(path).has_value());
}

TEST_CASE("what @record writes is read in full") {
    const ErrorFile file = error_file(kRecorded);
    CHECK(file.message == "ValueError: boom\nsecond");
    CHECK(file.traceback.starts_with("Traceback"));
    CHECK(file.timestamp == 1795275586);
    CHECK_FALSE(file.plain);
}

TEST_CASE("the reply file is the root cause's document with the exit code") {
    const sys::TempDir dir;
    const auto path = dir.path() / "reply.json";
    sys::write_file(path, "left over, and longer than what comes: " + std::string(500, 'x'));
    WorkerFailure root = killed(0, SIGSEGV);
    root.error_file = error_file(kRecorded);
    write_reply_file(path, root);
    Json reply = parse_json(sys::read_file(path));
    CHECK(reply["message"]["errorCode"] == -SIGSEGV);
    CHECK(reply["message"]["extraInfo"]["timestamp"] == "1795275586");

    root.error_file = error_file(R"({"message": "text", "more": 1})");
    write_reply_file(path, root);
    CHECK(parse_json(sys::read_file(path)) == parse_json(R"({"message": "text", "more": 1})"));

    root.error_file.reset();
    write_reply_file(path, root);
    reply = parse_json(sys::read_file(path));
    CHECK(reply["message"]["message"] == "Signal 11 (SIGSEGV) received by PID 8573");
    CHECK(reply["message"]["errorCode"] == -SIGSEGV);
}

TEST_CASE("a SIGKILL is out of memory only when the kernel counted a kill") {
    CHECK(classify(killed(2, SIGKILL), {}).kind == FailureKind::signal);
    const auto oom =
        classify(killed(2, SIGKILL), {.oom_kills_before = 3, .oom_kills_after = 4, .host = "n"});
    CHECK(oom.kind == FailureKind::out_of_memory);
    CHECK(oom.rank == 2);
    CHECK(oom.signal == SIGKILL);
    CHECK(oom.host == "n");
    CHECK(classify(killed(2, SIGTERM), {.oom_kills_before = 3, .oom_kills_after = 4}).kind ==
          FailureKind::signal);
    CHECK(classify(killed(2, SIGKILL), {.oom_kills_before = -1, .oom_kills_after = 4}).kind ==
          FailureKind::signal);
}

TEST_CASE("a taken port counts only for a young worker that exited by itself") {
    const std::string tail = "RuntimeError: The server socket has failed to listen: EADDRINUSE";
    CHECK(classify(exited(0, 1), {.stderr_tail = tail, .young = true}).kind ==
          FailureKind::port_in_use);
    CHECK(classify(exited(0, 1), {.stderr_tail = tail}).kind == FailureKind::exit_code);
    CHECK(classify(exited(0, 1), {.port_is_taken = true, .young = true}).kind ==
          FailureKind::port_in_use);
    CHECK(classify(killed(0, SIGSEGV), {.port_is_taken = true, .young = true}).kind ==
          FailureKind::signal);
}

TEST_CASE("a full disk is told from the message or the last lines") {
    WorkerFailure failure = exited(0, 1);
    failure.error_file =
        error_file(R"({"message": "OSError: [Errno 28] No space left on device: '/x'"})");
    CHECK(classify(failure, {}).kind == FailureKind::disk_full);
    CHECK(classify(exited(0, 1), {.stderr_tail = "write: No space left on device\n"}).kind ==
          FailureKind::disk_full);
}

TEST_CASE("the echo of another rank's death is marked secondary") {
    const auto echo = classify(exited(1, 1), {.stderr_tail = "x\nRuntimeError: Connection closed "
                                                             "by peer [127.0.0.1]:1\n\n"});
    CHECK(echo.secondary);
    CHECK(echo.kind == FailureKind::exit_code);
    CHECK(echo.message == "RuntimeError: Connection closed by peer [127.0.0.1]:1");
    CHECK_FALSE(classify(exited(1, 1), {.stderr_tail = "ValueError: boom"}).secondary);
    CHECK_FALSE(classify(killed(1, SIGSEGV), {}).secondary);
}
