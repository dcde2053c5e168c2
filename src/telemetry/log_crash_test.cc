// SPDX-License-Identifier: Apache-2.0
// A child appends and acknowledges over a pipe until it is killed; what it acknowledged must be
// there.
#include "sys/sys.h"
#include "telemetry/test_support.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>

namespace ty::telemetry {
namespace {

/// Child's life: batches of varying size to two streams, one acknowledgement each.
[[noreturn]] void append_for_ever(const sys::fs::path& root, int acknowledge) {
    TestClock clock;
    LogStore store(root, clock);
    std::uint64_t next = 0;
    for (const StreamInfo& info : store.streams(kStream.group))
        if (info.id == kStream) next = info.next_index;
    for (std::size_t batch = 1;; batch = batch * 7 % 1999) {
        next = store.append(kStream, next, numbered_lines(next, batch));
        std::array<std::uint64_t, 1> word{next};
        if (::write(acknowledge, word.data(), sizeof word) != ssize_t(sizeof word)) ::_exit(1);
    }
}

TEST_CASE("a killed writer loses no acknowledged line and leaves no half one") {
    const sys::TempDir dir;
    TestClock clock;
    std::uint64_t held = 0;
    for (int round = 0; round < 60; ++round) {
        sys::Pipe pipe = sys::make_pipe();
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            pipe.read.close();
            append_for_ever(dir.path(), pipe.write.get());
        }
        pipe.write.close();
        std::uint64_t acknowledged = 0;
        for (int n = 0; n < 1 + round % 7; ++n)
            if (sys::read_some(pipe.read.get(),
                               std::as_writable_bytes(std::span(&acknowledged, 1))) == 0)
                break;
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        // What it still acknowledged before it died.
        while (sys::read_some(pipe.read.get(),
                              std::as_writable_bytes(std::span(&acknowledged, 1))) == 8) {
        }
        const LogStore store(dir.path(), clock);
        const auto info = store.find_stream(kStream);
        REQUIRE(info);
        REQUIRE(info->next_index >= acknowledged);
        REQUIRE(acknowledged > held);
        std::uint64_t n = held;
        while (n < info->next_index) {
            const auto events = store.read(kStream, n, LogStore::Direction::forward, 10'000);
            REQUIRE_FALSE(events.empty());
            for (const LogEvent& event : events) {
                if (event.index != n || event.text != "line " + std::to_string(n))
                    FAIL("line ", n, " is ", event.text);
                ++n;
            }
        }
        held = n;
    }
}

}  // namespace
}  // namespace ty::telemetry
