// SPDX-License-Identifier: Apache-2.0
#include "sys/sys.h"
#include "telemetry/test_support.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace ty::telemetry {
namespace {

const std::string kGroup(kTrainingJobs);
const std::vector<MetricDefinition> kDefinitions = {{"loss", "loss=([0-9.]+)"},
                                                    {"acc", "acc=([0-9.]+)"}};

MetricId metric(const std::string& name, const std::string& job = "job-1") {
    return {.space = kGroup, .name = name, .dimensions = {{"TrainingJobName", job}}};
}

struct Fixture {
    sys::TempDir dir;
    TestClock clock;
    LogStore logs{dir.path() / "logs", clock};
    store::Db db{dir.path() / "state.db", {.durability = store::DbOptions::Durability::normal}};
    MetricStore metrics{db};

    std::uint64_t count(const MetricId& id) const {
        std::uint64_t sum = 0;
        for (const Datapoint& point :
             metrics.query(id, Instant(), Instant(seconds(1'000'000'000)), seconds(60)))
            sum += point.count;
        return sum;
    }
    void append(std::uint64_t first, std::size_t count,
                const std::string& stream = kStream.stream) {
        std::vector<LogLine> lines;
        for (std::uint64_t n = first; n < first + count; ++n)
            lines.push_back(
                {Instant(seconds(n)), n % 10 == 0 ? "step loss=" + std::to_string(n) : "noise"});
        logs.append({kGroup, stream}, first, lines);
    }
};

TEST_CASE_FIXTURE(Fixture,
                  "points are aggregated per period, aligned to it, empty periods absent") {
    const std::vector<MetricPoint> points = {
        {Instant(seconds(61)), 1}, {Instant(seconds(119)), 3}, {Instant(seconds(240)), 5}};
    metrics.put(metric("loss"), points);
    const auto data = metrics.query(metric("loss"), Instant(), Instant(seconds(600)), seconds(60));
    REQUIRE(data.size() == 2);
    CHECK(data[0].start == Instant(seconds(60)));
    CHECK(data[0].sum == 4);
    CHECK(data[0].minimum == 1);
    CHECK(data[0].maximum == 3);
    CHECK(data[0].count == 2);
    CHECK(data[1].start == Instant(seconds(240)));
    CHECK(metrics.query(metric("loss"), Instant(seconds(61)), Instant(seconds(119)), seconds(60))[0]
              .count == 1);
    CHECK(metrics.query(metric("none"), Instant(), Instant(seconds(600)), seconds(60)).empty());
}

TEST_CASE_FIXTURE(
    Fixture,
    "the last point is the last to arrive, and series differ by every part of their name") {
    metrics.put(metric("loss"), std::vector<MetricPoint>{{Instant(seconds(50)), 1}});
    metrics.put(metric("loss"), std::vector<MetricPoint>{{Instant(seconds(10)), 2}});
    metrics.put(metric("loss", "job-2"), std::vector<MetricPoint>{{Instant(seconds(10)), 9}});
    metrics.put({.space = "mine", .name = "loss", .dimensions = {}},
                std::vector<MetricPoint>{{Instant(), 7}});
    CHECK(metrics.last(metric("loss"))->value == 2);
    CHECK_FALSE(metrics.last(metric("acc")));
    CHECK(metrics.list(kGroup).size() == 2);
    CHECK(metrics.list({}, "loss").size() == 3);
    MetricId two{.space = "mine", .name = "d", .dimensions = {{"b", "2"}, {"a", "1"}}};
    metrics.put(two, std::vector<MetricPoint>{{Instant(), 1}});
    std::swap(two.dimensions[0], two.dimensions[1]);
    CHECK(metrics.last(two)->value == 1);
    CHECK_THROWS_AS(metrics.put(metric("x"), std::vector<MetricPoint>{{Instant(), 1.0 / 0.0}}),
                    Error);
}

TEST_CASE_FIXTURE(
    Fixture, "drain makes the points of every line held, of all hosts, with the lines' times") {
    MetricTap tap(logs, db);
    tap.watch(kGroup, "job-1", kDefinitions);
    append(0, 100);
    append(0, 20, "job-1/algo-2-1");
    append(0, 50, "job-10/algo-1-1");
    tap.drain(kGroup, "job-1");
    CHECK(count(metric("loss")) == 12);
    CHECK(count(metric("acc")) == 0);
    CHECK(count(metric("loss", "job-10")) == 0);
    CHECK(metrics.query(metric("loss"), Instant(), Instant(seconds(60)), seconds(60))[0].maximum ==
          50);
    tap.drain(kGroup, "job-1");
    CHECK(count(metric("loss")) == 12);
}

TEST_CASE_FIXTURE(Fixture, "a restarted tap goes on where the last one committed") {
    for (std::uint64_t round = 0; round < 5; ++round) {
        MetricTap tap(logs, db);
        tap.watch(kGroup, "job-1", kDefinitions);
        append(round * 100, 100);
        if (round % 2 == 0) tap.drain(kGroup, "job-1");
    }
    MetricTap tap(logs, db);
    tap.drain(kGroup, "job-1");
    CHECK(count(metric("loss")) == 50);
    CHECK(metrics.last(metric("loss"))->value == 490);
}

TEST_CASE_FIXTURE(Fixture, "the tap's own thread reads what is appended") {
    MetricTap tap(logs, db);
    tap.watch(kGroup, "job-1", kDefinitions);
    append(0, 100);
    const Deadline by = Deadline::in(seconds(20));
    while (count(metric("loss")) < 10 && !by.passed())
        sys::pause(Deadline::in(milliseconds(5)), {});
    CHECK(count(metric("loss")) == 10);
}

TEST_CASE_FIXTURE(Fixture, "a forgotten job is read no more, its points stay") {
    MetricTap tap(logs, db);
    tap.watch(kGroup, "job-1", kDefinitions);
    append(0, 100);
    tap.drain(kGroup, "job-1");
    tap.forget(kGroup, "job-1");
    append(100, 100);
    tap.drain(kGroup, "job-1");
    CHECK(count(metric("loss")) == 10);
}

TEST_CASE_FIXTURE(
    Fixture, "watching again with the same definitions changes nothing, bad ones are refused") {
    MetricTap tap(logs, db);
    tap.watch(kGroup, "job-1", kDefinitions);
    append(0, 100);
    tap.drain(kGroup, "job-1");
    tap.watch(kGroup, "job-1", kDefinitions);
    tap.drain(kGroup, "job-1");
    CHECK(count(metric("loss")) == 10);
    CHECK_THROWS_AS(tap.watch(kGroup, "job-1", {{"x", "(?=a)(b)"}}), Error);
}

TEST_CASE_FIXTURE(Fixture, "two definitions of one name feed one series in order of lines") {
    MetricTap tap(logs, db);
    tap.watch(kGroup, "job-1", {{"m", "a=([0-9]+)"}, {"m", "b=([0-9]+)"}});
    logs.append(kStream, 0,
                std::vector<LogLine>{{Instant(seconds(1)), "b=1"}, {Instant(seconds(2)), "a=2"}});
    tap.drain(kGroup, "job-1");
    CHECK(metrics.last(metric("m"))->value == 2);
    CHECK(count(metric("m")) == 2);
}

/// Appends and lets the tap work until killed; every line has a value of its own.
[[noreturn]] void tap_for_ever(const sys::fs::path& root, int acknowledge) {
    TestClock clock;
    LogStore logs(root / "logs", clock);
    store::Db db(root / "state.db", {.durability = store::DbOptions::Durability::normal});
    MetricTap tap(logs, db);
    tap.watch(kGroup, "job-1", kDefinitions);
    const auto info = logs.find_stream(kStream);
    std::uint64_t next = info ? info->next_index : 0;
    for (;;) {
        std::vector<LogLine> lines;
        for (std::uint64_t n = next; n < next + 37; ++n)
            lines.push_back({Instant(seconds(n)), "loss=" + std::to_string(n)});
        next = logs.append(kStream, next, lines);
        if (next % 3 == 0) tap.drain(kGroup, "job-1");
        if (::write(acknowledge, "x", 1) != 1) ::_exit(1);
    }
}

TEST_CASE("a tap killed at any moment neither loses nor doubles a point") {
    const sys::TempDir dir;
    TestClock clock;
    for (int round = 0; round < 25; ++round) {
        sys::Pipe pipe = sys::make_pipe();
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            pipe.read.close();
            tap_for_ever(dir.path(), pipe.write.get());
        }
        pipe.write.close();
        std::array<std::byte, 1> byte{};
        for (int n = 0; n <= round % 5; ++n) (void)sys::read_some(pipe.read.get(), byte);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    LogStore logs(dir.path() / "logs", clock);
    store::Db db(dir.path() / "state.db");
    MetricTap tap(logs, db);
    tap.drain(kGroup, "job-1");
    const std::uint64_t lines = logs.find_stream(kStream)->next_index;
    const auto data =
        MetricStore(db).query(metric("loss"), Instant(), Instant(seconds(lines)), seconds(1));
    REQUIRE(data.size() == lines);
    for (std::uint64_t n = 0; n < lines; ++n)
        if (data[n].count != 1 || data[n].sum != double(n))
            FAIL("line ", n, " has ", data[n].count, " points");
}

}  // namespace
}  // namespace ty::telemetry
