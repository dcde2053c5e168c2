// SPDX-License-Identifier: Apache-2.0
#include "agent/shipping/line_cutter.h"
#include "agent/shipping/log_pump.h"
#include "agent/shipping/log_queue.h"
#include "agent/testing/fake_daemon.h"
#include "base/format.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;

namespace {

std::vector<std::string> cut(const std::vector<std::string>& chunks,
                             std::size_t cap = LineCutter::kLineCap) {
    LineCutter cutter(cap);
    std::vector<std::string> lines;
    const LineCutter::Sink sink = [&](std::string_view line) { lines.emplace_back(line); };
    for (const std::string& chunk : chunks) cutter.feed(chunk, sink);
    cutter.flush(sink);
    return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lines end at newlines wherever the reads fall") {
    CHECK(cut({"a\nb", "c\n", "\n", "rest"}) == Lines{"a", "bc", "", "rest"});
    CHECK(cut({"a\r\nb\r", "\nc\rd\n"}) == Lines{"a", "b", "c\rd"});
    CHECK(cut({}).empty());
}

TEST_CASE("a line beyond the cap is delivered in pieces and nothing is lost") {
    const std::string big(1'000'000, 'x');
    std::string all;
    const Lines lines = cut({big.substr(0, 300'000), big.substr(300'000)});
    for (const std::string& line : lines) {
        CHECK(line.size() <= LineCutter::kLineCap);
        all += line;
    }
    CHECK(all == big);
    CHECK(lines.size() == 4);
}

TEST_CASE("a piece never ends inside a character") {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "€";
    std::string all;
    for (const std::string& line : cut({text.substr(0, 50), text.substr(50) + "\n"}, 16)) {
        CHECK(is_valid_utf8(line));
        all += line;
    }
    CHECK(all == text);
}

TEST_CASE("bytes that are no text are replaced") {
    CHECK(cut({"a\xff"
               "b\n"}) == Lines{"a\xEF\xBF\xBD"
                                "b"});
    const Lines lines = cut({std::string(100, '\x80') + "\n"}, 16);
    for (const std::string& line : lines) CHECK(is_valid_utf8(line));
}

TEST_CASE("the queue numbers lines without gaps through memory and spool") {
    const sys::TempDir dir;
    LogQueue::Limits limits;
    limits.batch = 100;
    limits.memory = 300;
    LogQueue queue(dir.path() / "spool", limits);
    const Instant now = from_epoch_millis(1234);
    for (int i = 0; i < 200; ++i) queue.add(now, format("line number {}", i));
    CHECK(queue.spooled() > 0);
    std::uint64_t next = 0;
    std::string all;
    while (!queue.empty()) {
        const LogQueue::Batch batch = queue.pop();
        CHECK(batch.first == next);
        next += batch.lines;
        all += batch.data;
        queue.release(batch);
        if (next < 100) queue.add(now, "late");
    }
    CHECK(next == queue.next_index());
    CHECK(queue.spooled() == 0);
    CHECK(all.starts_with("1234 13\nline number 0\n1234 13\nline number 1\n"));
    CHECK(all.find("\n1234 15\nline number 199\n") != std::string::npos);
    CHECK(sys::fs::file_size(dir.path() / "spool") == 0);
}

TEST_CASE("a spool that cannot be written keeps the lines in memory") {
    LogQueue::Limits limits;
    limits.batch = 100;
    limits.memory = 200;
    limits.ceiling = 1000;
    LogQueue queue("/nonexistent/spool", limits);
    for (int i = 0; i < 100; ++i) queue.add({}, "0123456789");
    CHECK(queue.is_full());
    std::uint64_t lines = 0;
    while (!queue.empty()) lines += queue.pop().lines;
    CHECK(lines == 100);
}

TEST_CASE("lines written while the daemon is away arrive once, in order, when it is back") {
    const sys::TempDir dir;
    FakeDaemon daemon;
    SystemClock clock;
    const Start start = {"algo-1", daemon.url(), daemon.token};
    LogPump pump(start, daemon.plan.stream, dir.path() / "spool", clock, [] {});
    pump.say("first");
    CHECK(daemon.wait_for_line("trainyard: first"));
    daemon.be_away(true);
    for (int i = 0; i < 50; ++i) sys::write_all(pump.write_fd(), format("line {}\n", i));
    sys::write_all(pump.write_fd(), "unfinished");
    const Tail tail = pump.finish_run();
    CHECK(tail.lines().back() == "unfinished");
    CHECK_FALSE(pump.flush(Deadline::in(milliseconds(20)), {}));
    daemon.be_away(false);
    CHECK(pump.flush(Deadline::in(seconds(20)), {}));
    const Lines lines = daemon.lines();
    REQUIRE(lines.size() == 52);
    CHECK(lines[1] == "line 0");
    CHECK(lines[50] == "line 49");
    CHECK(lines[51] == "unfinished");
    CHECK(daemon.complaints().empty());
}
