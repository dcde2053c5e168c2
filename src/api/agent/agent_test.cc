// SPDX-License-Identifier: Apache-2.0
#include "api/agent/log_frames.h"
#include "api/testing.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/fake/fake.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api;

namespace {

/// The agent's face over real stores and an engine that remembers the tokens.
struct Yard {
    sys::TempDir folder;
    test::FakeClock clock;
    SystemIds ids;
    store::Db db{folder.path() / "state.db", {.durability = store::DbOptions::Durability::normal}};
    engine::FakeEngine engine;
    jobs::JobService jobs{db, engine, clock, ids, {.control_plane = "http://127.0.0.1:1"}};
    objects::ObjectStore objects{folder.path() / "objects", db, clock};
    telemetry::LogStore logs{folder.path() / "logs", clock};
    telemetry::MetricStore metrics{db};
    telemetry::MetricTap tap{logs, db};
    images::Catalogue images{{}, {}};
    Services services{jobs, objects, logs, metrics, tap, images, clock, ids, {}};
    std::string token;

    Yard() {
        jobs::JobSpec spec;
        spec.name = "Digits";
        spec.region = "us-east-1";
        spec.account = "1";
        spec.arn = "arn:digits";
        jobs.create(spec, "{}", {}, "");
        REQUIRE(engine.wait_launched(1, Deadline::in(seconds(20))));
        token = engine.launched().at(0).agents.at(0).token;
    }
    http::Response send(const std::string& method, const std::string& path,
                        std::string_view body = {}, const std::string& query = {}) {
        http::Request request;
        request.method = method;
        request.path = path;
        request.query = query;
        request.headers.add("Authorization", "Bearer " + token);
        testing::TextBody reader(body);
        request.body = &reader;
        return serve_agent(services, request);
    }
    std::string stream() { return "Digits/algo-1-1762116564"; }
    http::Response log(std::string_view body, int first) {
        return send("POST", "/agent/v1/logs", body,
                    fmt::format("stream={}&first={}", percent_encode(stream()), first));
    }
    plan::SyncReply sync(std::vector<plan::Payload> payloads, std::uint64_t first = 1) {
        plan::SyncRequest request;
        request.host = "algo-1";
        for (auto& payload : payloads)
            request.events.push_back({first++, clock.now(), "algo-1", std::move(payload)});
        const http::Response response = send("POST", "/agent/v1/sync", plan::to_json(request));
        REQUIRE(response.status == 200);
        return plan::sync_reply_from_json(response.body);
    }
    std::vector<telemetry::LogEvent> stored() {
        return logs.read({std::string(telemetry::kTrainingJobs), stream()}, 0,
                         telemetry::LogStore::Direction::forward, 100);
    }
};

std::string refusal(std::string_view body) {
    try {
        parse_log_frames(body);
    } catch (const Error& error) {
        return error.message();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("an agent fetches its plan with its token and nothing without") {
    Yard yard;
    const http::Response response = yard.send("GET", "/agent/v1/plan");
    CHECK(response.status == 200);
    CHECK(plan::plan_from_json(response.body).job_name == "Digits");
    CHECK(yard.send("POST", "/agent/v1/plan").status == 404);
    CHECK(yard.send("GET", "/agent/v1/other").status == 404);
    yard.token += "x";
    for (const char* path : {"/agent/v1/plan", "/agent/v1/sync", "/agent/v1/logs"})
        CHECK(yard.send("POST", path, "{}").status == 401);
}

TEST_CASE("a stream exists as soon as the agent is up, though nothing was printed") {
    Yard yard;
    CHECK(yard.sync({plan::AgentUp{1, "none"}}).acknowledged == 1);
    CHECK(
        yard.logs.find_stream({std::string(telemetry::kTrainingJobs), yard.stream()}).has_value());
}

TEST_CASE("log lines are stored once however often a batch arrives") {
    Yard yard;
    CHECK(yard.log("1000 5\nhello\n1001 0\n\n", 0).body == "{\"next\":2}");
    CHECK(yard.log("1000 5\nhello\n1001 0\n\n1002 3\nx y\n", 0).body == "{\"next\":3}");
    const auto lines = yard.stored();
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].text == "hello");
    CHECK(lines[2].text == "x y");
    CHECK(yard.log("1003 1\nz\n", 9).status == 409);
}

TEST_CASE("an agent writes no stream but its own, and no broken batch in part") {
    Yard yard;
    CHECK(yard.send("POST", "/agent/v1/logs", "1 1\nx\n", "stream=Other/algo-1-1&first=0").status ==
          403);
    CHECK(yard.log("1 1\nx\n1 5\nshort\n2 9\nx\n", 0).status == 400);
    CHECK(yard.log("1 1\nx\n", -1).status == 400);
    yard.sync({plan::AgentUp{}});
    CHECK(yard.stored().empty());
}

TEST_CASE("metrics are complete when the end becomes visible") {
    Yard yard;
    const std::string group(telemetry::kTrainingJobs);
    yard.tap.watch(group, "Digits", {{"loss", "loss=([0-9.]+)"}});
    yard.sync({plan::AgentUp{}, plan::PhaseChanged{plan::Phase::training, ""}});
    CHECK(yard.log("1000 9\nloss=0.25\n", 0).status == 200);
    CHECK(yard.sync({plan::Finished{}}, 3).acknowledged == 3);
    CHECK(yard.jobs.find("us-east-1", "Digits")->status == jobs::Status::completed);
    CHECK(yard.metrics.last({group, "loss", {{"TrainingJobName", "Digits"}}})->value == 0.25);
    CHECK(yard.engine.wait_released(1, Deadline::in(seconds(20))));
}

TEST_CASE("messages that are no messages are the sender's fault") {
    Yard yard;
    for (const char* body : {"", "{", "[]", "{\"host\":\"algo-2\"}", "{\"host\":7}"})
        CHECK(yard.send("POST", "/agent/v1/sync", body).status == 400);
    const std::string huge(5u << 20, ' ');
    CHECK(yard.send("POST", "/agent/v1/sync", huge).status == 413);
}

TEST_CASE("frames carry any bytes but a line feed") {
    const auto lines = parse_log_frames(std::string_view("5 4\n\xff\0 \r\n", 9));
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].text == std::string("\xff\0 \r", 4));
    CHECK(to_epoch_millis(lines[0].time) == 5);
    CHECK(parse_log_frames("").empty());
    CHECK(refusal("x 1\na\n").find("frame 1 must have a time") != std::string::npos);
    CHECK(refusal("1 1\na\n1 1").find("frame 2 must have a byte count") != std::string::npos);
    CHECK(refusal("1 1\nab\n").find("line feed after") != std::string::npos);
    CHECK(refusal("1 3\na\nb\n").find("no line feed among") != std::string::npos);
    CHECK(refusal("1 18446744073709551615\na\n").find("as many bytes") != std::string::npos);
    CHECK(refusal("1 99999999999999999999\na\n").find("byte count") != std::string::npos);
    CHECK(refusal("-1 1\na\n").find("a time") != std::string::npos);
    CHECK(refusal("999999999999999 1\na\n").find("year") != std::string::npos);
}
