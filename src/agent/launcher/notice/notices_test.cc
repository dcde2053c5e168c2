// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/notice/notices.h"

#include "agent/launcher/notice/notice_text.h"
#include "base/error.h"
#include "base/sync.h"
#include "http/http.h"
#include "tests/support/fake_clock.h"

#include <vector>

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;

namespace {

struct Fixture {
    sys::TempDir dir;
    sys::Poller poller;
    test::FakeClock clock;
    LaunchOptions options;
    std::vector<Notice> notices;

    NoticeSources start() {
        return NoticeSources(poller, options, clock,
                             [this](const Notice& notice) { notices.push_back(notice); });
    }
    void wait_for(std::size_t count) {
        const Deadline by = Deadline::in(seconds(10));
        while (notices.size() < count && !by.passed()) poller.run_once(by, {});
        REQUIRE(notices.size() == count);
    }
    void settle(milliseconds time) {
        const Deadline by = Deadline::in(time);
        while (!by.passed()) poller.run_once(by, {});
    }
};

}  // namespace

TEST_CASE("a notice file says seconds, a time, JSON or nothing") {
    const Instant now = *parse_iso8601("2026-03-01T12:00:00Z");
    CHECK_FALSE(parse_notice_file(" \n", now));
    CHECK(parse_notice_file("30\n", now) == milliseconds(30000));
    CHECK(parse_notice_file("2.5", now) == milliseconds(2500));
    CHECK(parse_notice_file("-4", now) == milliseconds(0));
    CHECK(parse_notice_file("2026-03-01T12:02:00Z", now) == milliseconds(120000));
    CHECK(parse_notice_file("2026-03-01T11:00:00Z", now) == milliseconds(0));
    CHECK(parse_notice_file(R"({"grace": 7})", now) == milliseconds(7000));
    CHECK(parse_notice_file(R"({"time": "2026-03-01T12:00:09Z"})", now) == milliseconds(9000));
    CHECK(parse_notice_file(R"({"time": 1772366410})", now) == milliseconds(10000));
    CHECK_FALSE(parse_notice_file(R"({"by": "maintenance"})", now));
    CHECK(parse_notice_file("1e300", now) > milliseconds(0));  // a bounded number
    CHECK_THROWS_AS(parse_notice_file("soon", now), Error);
    CHECK_THROWS_AS(parse_notice_file(R"({"time": "soon"})", now), Error);
    CHECK_THROWS_AS(parse_notice_file("{", now), Error);
}

TEST_CASE("a metadata document is a notice only when it says so") {
    const Instant now = *parse_iso8601("2026-03-01T12:00:00Z");
    const auto spot =
        parse_notice_document(R"({"action": "terminate", "time": "2026-03-01T12:02:00Z"})", now);
    REQUIRE(spot);
    CHECK(spot->deadline == milliseconds(120000));
    CHECK(spot->action == ": terminate");
    CHECK(parse_notice_document("TRUE", now));
    CHECK(parse_notice_document("45", now)->deadline == milliseconds(45000));
    CHECK(parse_notice_document(R"({"action": "stop"})", now));
    for (const char* nothing :
         {"FALSE", "NONE", "", "{}", R"({"action": "none"})", "<html>log in</html>"})
        CHECK_FALSE(parse_notice_document(nothing, now));
}

TEST_CASE("a notice file that appears is seen, with what it says") {
    Fixture f;
    f.options.notice_file = (f.dir.path() / "preempt").string();
    const NoticeSources sources = f.start();
    f.settle(milliseconds(5));
    CHECK(f.notices.empty());
    sys::write_file(f.dir.path() / "other", "1");
    sys::write_file(f.options.notice_file, "30");
    f.wait_for(1);
    CHECK(f.notices[0].deadline == seconds(30));
    CHECK(f.notices[0].why == "notice file " + f.options.notice_file);
    sys::write_file(f.options.notice_file, "40");
    f.settle(milliseconds(30));
    CHECK(f.notices.size() == 1);  // once
}

TEST_CASE("a notice file that is there counts, even one that cannot be understood") {
    Fixture f;
    f.options.notice_file = (f.dir.path() / "preempt").string();
    sys::write_file(f.options.notice_file, "soon");
    const NoticeSources sources = f.start();
    CHECK(f.notices.empty());  // from the poller, not from the constructor
    f.wait_for(1);
    CHECK_FALSE(f.notices[0].deadline);
}

TEST_CASE("a notice file renamed into place and one in a folder made later are seen") {
    Fixture f;
    f.options.notice_file = (f.dir.path() / "late" / "preempt").string();
    const NoticeSources sources = f.start();
    f.settle(milliseconds(5));
    sys::fs::create_directories(f.dir.path() / "late");
    sys::write_file(f.dir.path() / "draft", R"({"grace": 1.5})");
    sys::fs::rename(f.dir.path() / "draft", f.options.notice_file);
    f.wait_for(1);
    CHECK(f.notices[0].deadline == milliseconds(1500));
}

TEST_CASE("a notice address is asked until it has something to say") {
    Fixture f;
    Sync<int> asked;
    http::Server server(sys::Listener::tcp("127.0.0.1", 0), [&](http::Request& request) {
        http::Response response;
        const int count = asked.with([](int& value) { return ++value; });
        if (request.method == "PUT") {
            CHECK(request.path == "/latest/api/token");
            response.body = "session";
        } else if (!request.headers.contains("X-aws-ec2-metadata-token")) {
            response.status = 401;
        } else {
            CHECK(request.path == "/spot/instance-action");
            CHECK(request.query == "v=1");
            response.body = R"({"action": "terminate", "time": "2025-11-02T20:50:00Z"})";
        }
        CHECK(count <= 3);
        return response;
    });
    f.clock.set(*parse_iso8601("2025-11-02T20:49:00Z"));
    f.options.notice_url = format("http://127.0.0.1:{}/spot/instance-action?v=1", server.port());
    const NoticeSources sources = f.start();
    f.wait_for(1);
    CHECK(f.notices[0].deadline == seconds(60));
    CHECK(f.notices[0].why == "notice from " + f.options.notice_url + ": terminate");
}

TEST_CASE("a notice address that is away or has nothing is no notice, and ends promptly") {
    Fixture f;
    Sync<int> asked;
    http::Server server(sys::Listener::tcp("127.0.0.1", 0), [&](http::Request&) {
        asked.with([](int& value) { ++value; });
        asked.notify();
        http::Response response;
        response.status = 404;
        response.body = R"({"action": "terminate"})";
        return response;
    });
    f.options.notice_url = format("http://127.0.0.1:{}/x", server.port());
    {
        const NoticeSources sources = f.start();
        asked.wait(
            Deadline::in(seconds(10)), {}, [](int& value) { return value > 0; },
            [](int& value) { CHECK(value > 0); });
        f.settle(milliseconds(5));
    }
    f.options.notice_url = "http://127.0.0.1:1/";
    { const NoticeSources sources = f.start(); }
    CHECK(f.notices.empty());
    f.options.notice_url = "https://example.org/";
    CHECK_THROWS_AS(f.start(), Error);
}

TEST_CASE("the end time drains ahead of it, by the wall clock as it is then") {
    Fixture f;
    f.options.end_time = f.clock.now() + seconds(100);
    f.options.drain_before = seconds(100) - milliseconds(5);
    const NoticeSources sources = f.start();
    f.settle(milliseconds(30));
    CHECK(f.notices.empty());  // the clock stands still, so it is not time
    f.clock.advance(seconds(40));
    f.wait_for(1);
    CHECK(f.notices[0].deadline == seconds(60));
    CHECK(f.notices[0].why == "end time " + format_iso8601(*f.options.end_time));
}

TEST_CASE("an end time in the past leaves no time") {
    Fixture f;
    f.options.end_time = f.clock.now() - seconds(1);
    const NoticeSources sources = f.start();
    f.wait_for(1);
    CHECK(f.notices[0].deadline == milliseconds(0));
}
