// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/workers/progress.h"

#include "agent/launcher/workers/process_tree.h"
#include "base/format.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;

namespace {

/// A made-up /proc.
class FakeProc {
public:
    const sys::fs::path& root() const { return dir_.path(); }
    void process(int pid, int parent, long long ticks, long long io,
                 const std::string& name = "x") {
        const auto folder = dir_.path() / "proc" / std::to_string(pid);
        sys::fs::create_directories(folder);
        sys::write_file(folder / "stat",
                        format("{} ({}) S {} 7 8 0 -1 0 0 0 0 0 {} 1 1 1 20 0 1 0 99\n", pid, name,
                               parent, ticks - 3));
        sys::write_file(folder / "io", format("rchar: {}\nwchar: 1\nsyscr: 55\n", io - 1));
    }

private:
    sys::TempDir dir_;
};

/// Time that tests set.
Monotonic at(milliseconds since_start) {
    return Monotonic() + std::chrono::hours(1) + since_start;
}

Activity reading(long long ticks, long long io = 0, long long output = 0) {
    return {.cpu_ticks = ticks, .io_bytes = io, .output = output, .state = 'S'};
}

}  // namespace

TEST_CASE("activity is the sum over a process and all below it") {
    FakeProc proc;
    proc.process(10, 1, 100, 1000);
    proc.process(11, 10, 20, 50);
    proc.process(12, 11, 3, 7);
    proc.process(20, 1, 5000, 90000);
    const Activity activity = read_activity(10, proc.root());
    CHECK(activity.cpu_ticks == 123);
    CHECK(activity.io_bytes == 1057);
    CHECK(activity.state == 'S');
    CHECK(read_activity(99, proc.root()).state == '?');
}

TEST_CASE("a process name may contain anything") {
    FakeProc proc;
    proc.process(10, 4, 100, 1, "a) R 9 (b\n");
    const auto line = read_process_line(10, proc.root());
    REQUIRE(line.has_value());
    CHECK(line->parent == 4);
    CHECK(line->group == 7);
    CHECK(line->session == 8);
    CHECK(line->ticks == 100);
}

TEST_CASE("descendants come parents first") {
    FakeProc proc;
    proc.process(30, 20, 5, 1);
    proc.process(20, 40, 5, 1);
    proc.process(40, 1, 5, 1);
    proc.process(41, 1, 5, 1);
    CHECK(descendants_below(40, proc.root()) == std::vector<pid_t>{20, 30});
    CHECK(descendants_below(41, proc.root()).empty());
}

TEST_CASE("a broken line of /proc is no process") {
    FakeProc proc;
    proc.process(10, 1, 5, 1);
    for (const char* text : {"", "10", "10 (x", "10 (x) ", "10 (x) S", "10 (x) S 1 2 three"}) {
        sys::write_file(proc.root() / "proc/10/stat", text);
        CHECK(!read_process_line(10, proc.root()).has_value());
    }
}

TEST_CASE("a rank without any activity for the timeout is stuck") {
    ProgressWatch watch(10s);
    for (int second = 0; second <= 9; ++second) {
        watch.observe(0, reading(500), at(seconds(second)));
        CHECK(watch.stuck(at(seconds(second))).empty());
    }
    watch.observe(0, reading(500), at(10s));
    CHECK(watch.stuck(at(10s)) == std::vector<int>{0});
}

TEST_CASE("processor time, input and output are progress") {
    ProgressWatch watch(10s);
    for (int second = 0; second <= 30; ++second) {
        watch.observe(0, reading(100 * second), at(seconds(second)));
        watch.observe(1, reading(0, second), at(seconds(second)));
        watch.observe(2, reading(0, 0, second), at(seconds(second)));
    }
    CHECK(watch.stuck(at(30s)).empty());
    CHECK(watch.stuck(at(40s)) == std::vector<int>{0, 1, 2});
}

TEST_CASE("a helper thread's hundredth of a core is not progress") {
    ProgressWatch watch(10s);
    for (int tenth = 0; tenth <= 100; ++tenth) {
        const milliseconds now(100 * tenth);
        watch.observe(0, reading(now / 1000ms), at(now));        // 1 % of a core
        watch.observe(1, reading(2 * (now / 1000ms)), at(now));  // 2 %
    }
    CHECK(watch.stuck(at(10s)) == std::vector<int>{0});
}

TEST_CASE("work that begins just before the timeout counts") {
    ProgressWatch watch(300s);
    for (int second = 0; second <= 297; ++second) watch.observe(0, reading(0), at(seconds(second)));
    watch.observe(0, reading(90), at(298s));
    watch.observe(0, reading(190), at(299s));
    CHECK(watch.stuck(at(300s)).empty());
}

TEST_CASE("the rank that is stuck longest comes first, and a new generation starts afresh") {
    ProgressWatch watch(2s);
    watch.observe(0, reading(0), at(1s));
    watch.observe(1, reading(0), at(0s));
    watch.observe(2, reading(0), at(5s));
    CHECK(watch.stuck(at(6s)) == std::vector<int>{1, 0});
    watch.begin(at(6s));
    CHECK(watch.stuck(at(60s)).empty());
}

TEST_CASE("without a timeout nothing is ever stuck") {
    ProgressWatch watch(0ms);
    watch.observe(0, reading(0), at(0s));
    CHECK(watch.stuck(at(1000s)).empty());
}
