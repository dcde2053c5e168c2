// SPDX-License-Identifier: Apache-2.0
#include "sys/child.h"

#include "base/error.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <csignal>

#include <fcntl.h>
#include <unistd.h>

using namespace ty;
using namespace ty::sys;

namespace {

Deadline soon() {
    return Deadline::in(seconds(20));
}

Command shell(const std::string& script) {
    Command command;
    command.argv = {"sh", "-c", script};
    return command;
}

Command sleeper() {
    Command command;
    command.argv = {"sleep", "600"};
    return command;
}

Code spawn_failure(const Command& command) {
    try {
        Child::spawn(command);
    } catch (const Error& error) {
        return error.code();
    }
    return Code::internal;
}

}  // namespace

TEST_CASE("exit codes and signals are told apart") {
    CHECK(describe(Exit{.code = 3}) == "exit code 3");
    CHECK(describe(Exit{.signal = SIGKILL}) == "SIGKILL (signal 9)");
    CHECK(Exit{.signal = SIGTERM}.shell_code() == 143);
    CHECK(run(shell("exit 7"), soon()).exit.code == 7);
    CHECK(run(shell("kill -TERM $$"), soon()).exit.signal == SIGTERM);
}

TEST_CASE("a program that cannot run is an error of spawn itself") {
    Command command;
    command.argv = {"/nonexistent/program"};
    CHECK(spawn_failure(command) == Code::not_found);
    command.argv = {"/etc/passwd"};
    CHECK(spawn_failure(command) == Code::denied);
    command = shell("true");
    command.cwd = "/nonexistent/folder";
    try {
        Child::spawn(command);
        FAIL("spawned in a missing folder");
    } catch (const Error& error) {
        CHECK(error.message().find("/nonexistent/folder") != std::string::npos);
    }
}

TEST_CASE("the child gets the given environment, folder and standard streams, and an empty stdin") {
    Command command = shell("echo $NAME; pwd; cat; echo oops >&2");
    command.env = std::vector<std::string>{"NAME=value", "PATH=/usr/bin:/bin"};
    command.cwd = "/";
    CHECK(run(command, soon()).text == "value\n/\noops\n");
}

TEST_CASE(
    "only kept descriptors reach the child, under the given numbers even when they are swapped") {
    Pipe a = make_pipe();
    Pipe b = make_pipe();
    // A descriptor somebody forgot to mark close-on-exec must not leak either.
    const Fd leaky(::fcntl(a.read.get(), F_DUPFD, 60));
    REQUIRE(leaky.get() >= 60);
    write_all(a.write.get(), "from a");
    write_all(b.write.get(), "from b");
    a.write.close();
    b.write.close();
    Command command = shell("cat <&7; cat <&5; ls /proc/self/fd | tr '\\n' ' '");
    command.keep = {{a.read.get(), 5}, {b.read.get(), 7}};
    const Output output = run(command, soon());
    CHECK(output.text.starts_with("from bfrom a"));
    // ls itself opens the listing, which takes the lowest free number 3.
    CHECK(output.text.substr(12) == "0 1 2 3 5 7 ");

    Pipe c = make_pipe();
    Pipe d = make_pipe();
    write_all(c.write.get(), "c");
    write_all(d.write.get(), "d");
    c.write.close();
    d.write.close();
    Command swapped = shell(format("cat <&{}; cat <&{}", c.read.get(), d.read.get()));
    swapped.keep = {{c.read.get(), d.read.get()}, {d.read.get(), c.read.get()}};
    CHECK(run(swapped, soon()).text == "dc");
}

TEST_CASE("blocked and ignored signals of ours are back to normal in the child") {
    sigset_t set;
    sigset_t before;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    struct sigaction ignore = {};
    struct sigaction was = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &was);
    const Output output =
        run(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'"), soon());
    ::sigaction(SIGPIPE, &was, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    REQUIRE(output.text.starts_with("SigBlk:0000000000000000SigIgn:"));
    const auto ignored = std::stoull(output.text.substr(30), nullptr, 16);
    // Signals 32 and 33 belong to the C library's threads; it ignores them in every child.
    CHECK((ignored & ~0x180000000ull) == 0);
}

TEST_CASE("a child in its own session leads it") {
    Command command = shell(
        "read pid comm state ppid pgrp session rest < /proc/self/stat; "
        "test $session = $$");
    CHECK(run(command, soon()).exit.code == 1);
    command.session = Command::Session::own;
    CHECK(run(command, soon()).exit.code == 0);
}

TEST_CASE("waiting honours its deadline, and the destructor leaves no process behind") {
    pid_t pid = -1;
    {
        Child child = Child::spawn(sleeper());
        pid = child.pid();
        CHECK_FALSE(child.try_wait());
        CHECK_FALSE(child.wait(Deadline::in(milliseconds(5))));
        std::stop_source stop;
        stop.request_stop();
        CHECK_FALSE(child.wait(Deadline::never(), stop.get_token()));
    }
    CHECK(::kill(pid, 0) == -1);
    Child child = Child::spawn(sleeper());
    child.signal(SIGINT);
    const auto exit = child.wait(soon());
    REQUIRE(exit);
    CHECK(exit->signal == SIGINT);
    child.signal(SIGINT);  // gone already: nothing happens
}

TEST_CASE(
    "collecting output ends with the child though a grandchild holds the pipe, and is bounded") {
    const Output output = run(shell("sleep 30 & echo $!; exit 0"), soon());
    const auto grandchild = parse_int(trim(output.text));
    REQUIRE(grandchild);
    ::kill(static_cast<pid_t>(*grandchild), SIGKILL);
    CHECK(run(shell("head -c 3000000 /dev/zero"), soon()).text.size() == 1u << 20);
    try {
        run(sleeper(), Deadline::in(milliseconds(20)));
        FAIL("ended");
    } catch (const Error& error) {
        CHECK(error.code() == Code::timed_out);
    }
}
