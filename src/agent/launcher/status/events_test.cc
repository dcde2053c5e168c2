// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/status/events.h"

#include "base/error.h"
#include "base/json.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/http.h"
#include "tests/support/fake_clock.h"

#include <array>
#include <memory>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

using namespace ty;
using namespace ty::agent;

namespace {

struct Health {
    Sync<std::vector<std::optional<milliseconds>>> drains;
    HealthServer server;
    std::optional<http::Client> client;

    explicit Health(const std::string& address = "0", const std::string& token = "")
        : server(
              address,
              [this](std::optional<milliseconds> grace) {
                  drains.with([grace](std::vector<std::optional<milliseconds>>& all) {
                      all.push_back(grace);
                  });
              },
              token),
          client(http::parse_url(format("http://127.0.0.1:{}", server.port()))) {}

    http::ClientResponse send(const char* method, const char* target,
                              std::vector<std::pair<std::string, std::string>> headers = {}) {
        http::ClientRequest request;
        request.method = method;
        request.target = target;
        for (auto& [name, value] : headers) request.headers.add(name, value);
        return client->send(request, Deadline::in(seconds(10)));
    }
    std::vector<std::optional<milliseconds>> drained() {
        return drains.with([](std::vector<std::optional<milliseconds>>& all) { return all; });
    }
};

/// An IPv4 address of this machine that is not loopback's; traffic to it stays inside. Empty: none.
std::string outer_address() {
    ifaddrs* raw = nullptr;
    if (::getifaddrs(&raw) != 0) return "";
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, ::freeifaddrs);
    for (const ifaddrs* one = raw; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
        if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
        std::array<char, INET_ADDRSTRLEN> text{};
        const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
        return ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    }
    return "";
}

}  // namespace

TEST_CASE("events are JSON lines with numbers where the text is one") {
    const sys::TempDir dir;
    const test::FakeClock clock(*parse_iso8601("2026-01-31T12:00:00Z"));
    const std::string path = (dir.path() / "events.jsonl").string();
    sys::write_file(path, "{\"kept\":1}\n");
    EventLog log(path, "job-1", "n1", clock);
    log.write("generation_started",
              {{"generation", "3"}, {"seconds", "0.25"}, {"id", "007"}, {"node", "n2"}});
    log.write("text", {{"a", "-5"},
                       {"b", "1e3"},
                       {"c", "nan"},
                       {"d", "0x1f"},
                       {"e", ""},
                       {"f", "123456789012345678901234567890"},
                       {"g", "1.2.3"},
                       {"h", "line\n\"two\"\xff"}});
    const std::vector<std::string> lines = split(sys::read_file(path), '\n');
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == R"({"kept":1})");
    CHECK(lines[1] ==
          R"({"time":"2026-01-31T12:00:00.000Z","event":"generation_started","run_id":"job-1",)"
          R"("node":"n1","generation":3,"seconds":0.25,"id":"007","about_node":"n2"})");
    const Json second = parse_json(lines[2]);
    CHECK(second["a"] == -5);
    CHECK(second["b"] == 1000.0);
    CHECK(second["c"] == "nan");
    CHECK(second["d"] == "0x1f");
    CHECK(second["e"] == "");
    CHECK(second["f"].is_string());
    CHECK(second["g"] == "1.2.3");
    CHECK(second["h"].get<std::string>().starts_with("line\n\"two\""));
}

TEST_CASE("events into a missing folder are refused with the remedy, none are none") {
    const sys::TempDir dir;
    const test::FakeClock clock;
    try {
        EventLog log((dir.path() / "no" / "events").string(), "j", "n", clock);
        FAIL("not refused");
    } catch (const Error& error) {
        CHECK(error.code() == Code::not_found);
        CHECK(std::string(error.what()).find("create it first") != std::string::npos);
    }
    EventLog none("", "j", "n", clock);
    none.write("nothing", {});
}

TEST_CASE("a full disk loses events and nothing else") {
    if (!sys::fs::exists("/dev/full")) return;
    const test::FakeClock clock;
    EventLog log("/dev/full", "j", "n", clock);
    log.write("lost", {});
}

TEST_CASE("health is good while workers run or wait, and bad when fenced or over") {
    Health health;
    CHECK(health.send("GET", "/healthz").status == 200);
    HealthState state;
    state.phase = "running";
    state.generation = 4;
    state.workers_alive = 2;
    health.server.update(state);
    const http::ClientResponse well = health.send("GET", "/healthz");
    CHECK(well.status == 200);
    const Json body = parse_json(well.body);
    CHECK(body["status"] == "ok");
    CHECK(body["phase"] == "running");
    CHECK(body["generation"] == 4);
    state.fenced = true;
    health.server.update(state);
    CHECK(health.send("GET", "/healthz").status == 503);
    state.fenced = false;
    state.phase = "over";
    health.server.update(state);
    CHECK(parse_json(health.send("GET", "/healthz").body)["status"] == "over");
}

TEST_CASE("metrics name every cause and phase") {
    Health health;
    HealthState state;
    state.phase = "draining";
    state.generation = 7;
    state.workers_alive = 1;
    state.workers_wanted = 2;
    state.warm_starts = 5;
    state.restarts_by_cause = {{"preemption", 3}};
    state.last_recovery_seconds = 0.125;
    health.server.update(state);
    const http::ClientResponse answer = health.send("GET", "/metrics");
    CHECK(answer.headers.get("Content-Type").starts_with("text/plain; version=0.0.4"));
    for (const char* line :
         {"# TYPE trainyard_launcher_generation gauge", "trainyard_launcher_generation 7",
          "trainyard_launcher_workers 1", "trainyard_launcher_workers_wanted 2",
          "trainyard_launcher_restarts_total{cause=\"preemption\"} 3",
          "trainyard_launcher_restarts_total{cause=\"hang\"} 0",
          "trainyard_launcher_warm_starts_total 5", "trainyard_launcher_cold_starts_total 0",
          "trainyard_launcher_last_recovery_seconds 0.125",
          "trainyard_launcher_phase{phase=\"draining\"} 1",
          "trainyard_launcher_phase{phase=\"running\"} 0", "trainyard_launcher_fenced 0"})
        CHECK_MESSAGE(answer.body.find(std::string(line) + "\n") != std::string::npos, line);
    CHECK(health.send("HEAD", "/metrics").body.empty());
}

TEST_CASE("a drain is posted, with or without a grace") {
    Health health;
    CHECK(health.send("POST", "/drain").status == 202);
    const http::ClientResponse answer = health.send("POST", "/drain?grace=1.5");
    CHECK(answer.status == 202);
    CHECK(parse_json(answer.body)["grace_seconds"] == 1.5);
    CHECK(health.drained() ==
          std::vector<std::optional<milliseconds>>{std::nullopt, milliseconds(1500)});
}

TEST_CASE("anything else is refused with a sentence") {
    Health health;
    CHECK(health.send("GET", "/drain").status == 405);
    CHECK(health.send("GET", "/drain").headers.get("Allow") == "POST");
    CHECK(health.send("POST", "/healthz").status == 405);
    CHECK(health.send("GET", "/other").status == 404);
    CHECK(parse_json(health.send("GET", "/").body).contains("error"));
    for (const char* grace : {"-1", "nan", "x", "1e99", ""})
        CHECK(health.send("POST", format("/drain?grace={}", grace).c_str()).status == 400);
    CHECK(health.send("POST", "/drain?force=1").status == 400);
    CHECK(health.send("POST", "/drain", {{"Origin", "http://evil.example"}}).status == 403);
    CHECK(health.drained().empty());
}

TEST_CASE("from elsewhere a drain takes the job's token, and without one is refused") {
    const std::string address = outer_address();
    if (address.empty()) {
        MESSAGE("skipped: this machine has no address but loopback's");
        return;
    }
    for (const std::string token : {"secret", ""}) {
        Health health("0.0.0.0:0", token);
        CHECK(health.send("POST", "/drain").status == 202);  // from here
        health.client.emplace(
            http::parse_url(format("http://{}:{}", address, health.server.port())));
        CHECK(health.send("GET", "/healthz").status == 200);
        CHECK(health.send("POST", "/drain").status == 403);
        CHECK(health.send("POST", "/drain", {{"Authorization", "Bearer wrong"}}).status == 403);
        CHECK(health.send("POST", "/drain", {{"Authorization", "Bearer "}}).status == 403);
        CHECK(health.send("POST", "/drain", {{"Authorization", "Bearer secret"}}).status ==
              (token.empty() ? 403 : 202));
    }
}

TEST_CASE("addresses: a port is loopback's, a wrong one or a taken one is refused") {
    Health health;
    CHECK_THROWS_AS(Health("nonsense"), Error);
    CHECK_THROWS_AS(Health("127.0.0.1:99999"), Error);
    try {
        Health second(format(":{}", health.server.port()));
        FAIL("not refused");
    } catch (const Error& error) {
        CHECK(error.code() == Code::conflict);
    }
}
