// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/text.h"
#include "sys/sys.h"
#include "telemetry/catalogue.h"
#include "telemetry/test_support.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <csignal>
#include <thread>

namespace ty::telemetry {
namespace {

struct Fixture {
    sys::TempDir dir;
    TestClock clock;
    std::optional<LogStore> store;
    Fixture() {
        log::set_level(log::Level::error);
        open();
    }
    void open() {
        store.reset();
        store.emplace(dir.path(), clock);
    }
    sys::fs::path data_file(const StreamId& id = kStream) const {
        return dir.path() / file_name_of(id.group) / file_name_of(id.stream) / "lines.log";
    }
    std::vector<LogEvent> all(const StreamId& id = kStream) {
        std::vector<LogEvent> out;
        for (;;) {
            const auto page = store->read(id, out.size(), LogStore::Direction::forward, 10'000);
            if (page.empty()) return out;
            out.insert(out.end(), page.begin(), page.end());
        }
    }
};

constexpr auto kForward = LogStore::Direction::forward;
constexpr auto kBackward = LogStore::Direction::backward;

template <typename Fn>
std::string reason_of(Fn&& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.reason();
    }
    return "nothing thrown";
}

TEST_CASE_FIXTURE(Fixture, "lines come back in order after a reopen, however they were batched") {
    std::uint64_t next = 0;
    for (const std::size_t count : {1u, 1u, 3000u, 7u, 1024u, 1u})
        next = store->append(kStream, next, numbered_lines(next, count));
    open();
    const auto events = all();
    REQUIRE(events.size() == next);
    for (std::uint64_t n = 0; n < next; ++n) {
        CHECK(events[n].index == n);
        CHECK(events[n].text == "line " + std::to_string(n));
        CHECK(events[n].time == Instant(seconds(n)));
    }
}

TEST_CASE_FIXTURE(Fixture, "a repeated batch adds only its new lines and a gap is refused") {
    CHECK(store->append(kStream, 0, numbered_lines(0, 10)) == 10);
    CHECK(store->append(kStream, 0, numbered_lines(0, 10)) == 10);
    CHECK(store->append(kStream, 5, numbered_lines(5, 10)) == 15);
    CHECK(reason_of([&] { store->append(kStream, 16, numbered_lines(16, 1)); }) == "SequenceGap");
    CHECK(store->append(kStream, 15, {}) == 15);
    CHECK(all().size() == 15);
}

TEST_CASE_FIXTURE(Fixture, "time never goes back within a stream") {
    const std::vector<LogLine> lines = {
        {Instant(seconds(10)), "a"}, {Instant(seconds(5)), "b"}, {Instant(seconds(11)), "c"}};
    store->append(kStream, 0, lines);
    open();
    store->append(kStream, 3, std::vector<LogLine>{{Instant(seconds(1)), "d"}});
    const auto events = all();
    REQUIRE(events.size() == 4);
    CHECK(events[1].time == Instant(seconds(10)));
    CHECK(events[3].time == Instant(seconds(11)));
}

TEST_CASE_FIXTURE(Fixture, "a file cut at any byte loses whole frames only, and goes on") {
    store->append(kStream, 0, numbered_lines(0, 3));
    store->append(kStream, 3, numbered_lines(3, 2));
    const std::uint64_t acknowledged = sys::fs::file_size(data_file());
    store->append(kStream, 5, numbered_lines(5, 4));
    store.reset();
    const std::string whole = sys::read_file(data_file());
    for (std::size_t size = 0; size <= whole.size(); ++size) {
        sys::write_file(data_file(), std::string_view(whole).substr(0, size));
        open();
        const auto events = all();
        CHECK(
            (events.size() == 0 || events.size() == 3 || events.size() == 5 || events.size() == 9));
        if (size >= acknowledged) CHECK(events.size() >= 5);
        const std::uint64_t next = events.size();
        CHECK(store->append(kStream, next, numbered_lines(next, 1)) == next + 1);
        CHECK(all().back().text == "line " + std::to_string(next));
    }
}

TEST_CASE_FIXTURE(Fixture, "garbage after the last frame is cut off") {
    store->append(kStream, 0, numbered_lines(0, 3));
    store.reset();
    const std::string whole = sys::read_file(data_file());
    for (const std::string& tail : {std::string(100, '\0'), whole, whole.substr(0, 50)}) {
        sys::write_file(data_file(), whole + tail);
        open();
        CHECK(all().size() == 3);
    }
}

TEST_CASE_FIXTURE(
    Fixture, "the sparse index is only a hint: missing, torn or foreign, the lines are the same") {
    std::uint64_t next = 0;
    while (next < 20'000) next = store->append(kStream, next, numbered_lines(next, 500));
    const sys::fs::path index = data_file().parent_path() / "lines.idx";
    REQUIRE(sys::fs::exists(index));
    store.reset();
    const std::string good = sys::read_file(index);
    const std::vector<std::string> variants = {good, "", good.substr(0, good.size() / 2 + 3),
                                               std::string(good.size(), 'x'), good + good};
    for (const std::string& content : variants) {
        sys::write_file(index, content);
        open();
        const auto tail = store->read(kStream, 19'990, kForward, 100);
        REQUIRE(tail.size() == 10);
        CHECK(tail[9].text == "line 19999");
        CHECK(store->find_stream(kStream)->first_event == Instant(seconds(0)));
        CHECK(store->index_at(kStream, Instant(milliseconds(12'345'500))) == 12'346);
        next = store->append(kStream, next, numbered_lines(next, 0));
    }
}

TEST_CASE_FIXTURE(Fixture, "an index ahead of the data, as after a power cut, is stepped back") {
    std::uint64_t next = 0;
    while (next < 10'000) next = store->append(kStream, next, numbered_lines(next, 500));
    store.reset();
    const std::string whole = sys::read_file(data_file());
    sys::write_file(data_file(), std::string_view(whole).substr(0, whole.size() / 2));
    open();
    const std::uint64_t held = store->find_stream(kStream)->next_index;
    CHECK(held > 3000);
    CHECK(held % 500 == 0);
    CHECK(store->append(kStream, held, numbered_lines(held, 3000)) == held + 3000);
    open();
    CHECK(all().size() == held + 3000);
}

TEST_CASE_FIXTURE(Fixture, "reading backward gives the newest lines below an index, oldest first") {
    std::uint64_t next = 0;
    while (next < 5000) next = store->append(kStream, next, numbered_lines(next, 100));
    auto page = store->read(kStream, next, kBackward, 3);
    REQUIRE(page.size() == 3);
    CHECK(page[0].text == "line 4997");
    CHECK(page[2].text == "line 4999");
    page = store->read(kStream, 2500, kBackward, 2000);
    REQUIRE(page.size() == 2000);
    CHECK(page.front().index == 500);
    CHECK(page.back().index == 2499);
    CHECK(store->read(kStream, 2, kBackward, 10).size() == 2);
    CHECK(store->read(kStream, 0, kBackward, 10).empty());
    CHECK(store->read(kStream, 99'999, kBackward, 1)[0].index == 4999);
}

TEST_CASE_FIXTURE(Fixture, "a time range takes its start and leaves out its end") {
    store->append(kStream, 0, numbered_lines(0, 3000));
    const LogStore::Range range{Instant(seconds(100)), Instant(seconds(200))};
    auto page = store->read(kStream, 0, kForward, 1000, range);
    REQUIRE(page.size() == 100);
    CHECK(page.front().index == 100);
    CHECK(page.back().index == 199);
    page = store->read(kStream, 3000, kBackward, 10, range);
    REQUIRE(page.size() == 10);
    CHECK(page.back().index == 199);
    CHECK(store->read(kStream, 3000, kBackward, 1000, range).size() == 100);
    CHECK(store->index_at(kStream, Instant(seconds(5000))) == 3000);
}

TEST_CASE_FIXTURE(Fixture, "equal times are all found from the first of them") {
    std::vector<LogLine> lines(5000, LogLine{Instant(seconds(1)), "same"});
    lines.insert(lines.begin(), LogLine{Instant(seconds(0)), "before"});
    store->append(kStream, 0, lines);
    CHECK(store->index_at(kStream, Instant(seconds(1))) == 1);
}

TEST_CASE_FIXTURE(Fixture, "one answer holds about a MiB, and at least one line") {
    const std::string big(400'000, 'x');
    std::vector<LogLine> lines(5, LogLine{Instant(), big});
    store->append(kStream, 0, lines);
    CHECK(store->read(kStream, 0, kForward, 100).size() == 2);
    CHECK(store->read(kStream, 5, kBackward, 100).size() == 2);
    store->append(kStream, 5, std::vector<LogLine>{{Instant(), std::string(3u << 20, 'y')}});
    CHECK(store->read(kStream, 5, kForward, 100).size() == 1);
    CHECK(reason_of([&] {
              store->append(kStream, 6,
                            std::vector<LogLine>{{Instant(), std::string(5u << 20, 'z')}});
          }) == "LineTooLong");
}

TEST_CASE_FIXTURE(
    Fixture, "streams are listed by name and prefix, also after a reopen and a torn catalogue") {
    for (const char* name : {"b/algo-1", "a/algo-2", "a/algo-1", "ab/algo-1"})
        store->create_stream({kStream.group, name});
    store->create_stream({kStream.group, "a/algo-1"});
    store->create_group("/mine");
    store.reset();
    const auto file = dir.path() / "catalogue.log";
    sys::write_file(file, sys::read_file(file) + "0000");
    open();
    CHECK(store->stream_names(kStream.group, "a/") ==
          std::vector<std::string>{"a/algo-1", "a/algo-2"});
    CHECK(store->stream_names(kStream.group, "a", "a/algo-1", 2) ==
          std::vector<std::string>{"a/algo-2", "ab/algo-1"});
    CHECK(store->streams("/mine").empty());
    CHECK(store->groups() == std::vector<std::string>{std::string(kTrainingJobs), "/mine"});
    CHECK(reason_of([&] { (void)store->streams("/none"); }) == "ResourceNotFoundException");
    CHECK(reason_of([&] {
              (void)store->read({"/mine", "x"}, 0, kForward, 1);
          }) == "ResourceNotFoundException");
    CHECK_FALSE(store->find_stream({"/mine", "x"}));
}

TEST_CASE_FIXTURE(Fixture, "deleted streams are gone and their names start afresh") {
    store->append(kStream, 0, numbered_lines(0, 3));
    store->append({kStream.group, "other/algo-1"}, 0, numbered_lines(0, 1));
    store->delete_streams(kStream.group, "job-1/");
    CHECK_FALSE(store->find_stream(kStream));
    CHECK_FALSE(sys::fs::exists(data_file()));
    open();
    CHECK(store->streams(kStream.group).size() == 1);
    CHECK(store->append(kStream, 0, numbered_lines(0, 2)) == 2);
}

TEST_CASE_FIXTURE(Fixture, "hostile names stay inside the root") {
    for (const std::string& name :
         {std::string(".."), std::string("../../etc/x"), std::string("."), std::string(500, '/'),
          std::string("a\nb\0c", 5), std::string("%2E")}) {
        const StreamId id{kStream.group, name};
        store->append(id, 0, numbered_lines(0, 1));
        CHECK(sys::fs::exists(data_file(id)));
        CHECK(file_name_of(name).find('/') == std::string::npos);
        CHECK(file_name_of(name).size() < 255);
        CHECK(store->find_stream(id)->next_index == 1);
    }
    CHECK(file_name_of(std::string(500, '/')) != file_name_of(std::string(501, '/')));
}

TEST_CASE_FIXTURE(Fixture, "more streams than are kept open all stay right") {
    for (int round = 0; round < 3; ++round)
        for (int n = 0; n < 400; ++n)
            store->append({kStream.group, "j" + std::to_string(n) + "/algo-1"},
                          std::uint64_t(round), numbered_lines(std::uint64_t(round), 1));
    for (const StreamInfo& info : store->streams(kStream.group)) CHECK(info.next_index == 3);
}

TEST_CASE_FIXTURE(Fixture, "a full disk refuses the batch and leaves the stream as it was") {
    store->append(kStream, 0, numbered_lines(0, 10));
    const std::uint64_t before = sys::fs::file_size(data_file());
    struct rlimit old {};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit tight = old;
    tight.rlim_cur = before + 5000;
    setrlimit(RLIMIT_FSIZE, &tight);
    const std::string reason =
        reason_of([&] { store->append(kStream, 10, numbered_lines(10, 20'000)); });
    setrlimit(RLIMIT_FSIZE, &old);
    (void)std::signal(SIGXFSZ, old_handler);
    CHECK(reason == "DiskFull");
    CHECK(sys::fs::file_size(data_file()) == before);
    CHECK(all().size() == 10);
    CHECK(store->append(kStream, 10, numbered_lines(10, 20'000)) == 20'010);
    open();
    CHECK(all().size() == 20'010);
}

TEST_CASE_FIXTURE(Fixture, "a follower wakes on an append and gives up at its deadline") {
    store->create_stream(kStream);
    CHECK(store->wait_beyond(kStream, 0, Deadline::in(milliseconds(1)), {}) == 0);
    std::uint64_t seen = 0;
    std::thread follower(
        [&] { seen = store->wait_beyond(kStream, 0, Deadline::in(seconds(30)), {}); });
    store->append(kStream, 0, numbered_lines(0, 4));
    follower.join();
    CHECK(seen == 4);
    std::stop_source stop;
    stop.request_stop();
    CHECK(store->wait_beyond(kStream, 4, Deadline::in(seconds(30)), stop.get_token()) == 4);
}

TEST_CASE_FIXTURE(Fixture, "several writers and readers at once see whole batches in order") {
    std::vector<std::thread> threads;
    for (int writer = 0; writer < 3; ++writer)
        threads.emplace_back([this, writer] {
            const StreamId id{kStream.group, "w" + std::to_string(writer)};
            for (std::uint64_t n = 0; n < 2000; n += 50)
                store->append(id, n, numbered_lines(n, 50));
        });
    threads.emplace_back([this] {
        store->create_stream({kStream.group, "w0"});
        for (std::uint64_t n = 0; n < 2000;) {
            for (const LogEvent& event : store->read({kStream.group, "w0"}, n, kForward, 1000)) {
                CHECK(event.text == "line " + std::to_string(n));
                ++n;
            }
            if (n < 2000)
                store->wait_beyond({kStream.group, "w0"}, n, Deadline::in(seconds(10)), {});
        }
    });
    for (std::thread& thread : threads) thread.join();
    for (const StreamInfo& info : store->streams(kStream.group, "w"))
        CHECK(info.next_index == 2000);
}

TEST_CASE_FIXTURE(Fixture, "every successful append is told, once, with its stream") {
    std::vector<StreamId> told;
    store->on_append([&](const StreamId& id) { told.push_back(id); });
    store->append(kStream, 0, numbered_lines(0, 2));
    CHECK(reason_of([&] { store->append(kStream, 9, numbered_lines(9, 1)); }) == "SequenceGap");
    store->on_append(nullptr);
    store->append(kStream, 2, numbered_lines(2, 1));
    CHECK(told == std::vector<StreamId>{kStream});
}

TEST_CASE_FIXTURE(Fixture, "activity order follows the last written line") {
    for (const char* name : {"x", "y", "z"}) {
        store->append({kStream.group, name}, 0, numbered_lines(0, 1));
        const auto file = data_file({kStream.group, name});
        sys::fs::last_write_time(
            file, sys::fs::last_write_time(file) + seconds(*name == 'y' ? 100 : *name - 'x'));
    }
    CHECK(store->streams_by_activity(kStream.group) == std::vector<std::string>{"x", "z", "y"});
}

}  // namespace
}  // namespace ty::telemetry
