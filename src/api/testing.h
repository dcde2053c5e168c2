// SPDX-License-Identifier: Apache-2.0
// A whole set of services over a temporary folder and an engine that starts nothing, behind the
// real router: what tests of faces send their signed requests to. Tests only.
#pragma once

#include "api/api.h"
#include "base/hash.h"
#include "base/text.h"
#include "tests/support/fake_clock.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ty::api::testing {

class IdleEngine final : public engine::Engine {
public:
    std::string name() const override { return "idle"; }
    engine::Capacity capacity() const override { return {.cpus = 4, .gpus = 0}; }
    void launch(const engine::Placement&) override {}
    std::vector<engine::Allocation> list() override { return {}; }
    void release(const AttemptId&) override {}
    void release(const AttemptId&, const std::string&) override {}
    void kill(const AttemptId&, const std::string&) override {}
    void on_gone(std::function<void(const engine::Allocation&)>) override {}
};

class TextBody final : public http::BodyReader {
public:
    explicit TextBody(std::string_view text) : left_(text), length_(text.size()) {}
    std::size_t read(std::span<std::byte> into) override {
        const std::size_t count = std::min(into.size(), left_.size());
        std::memcpy(into.data(), left_.data(), count);
        left_.remove_prefix(count);
        return count;
    }
    std::optional<std::uint64_t> length() const override { return length_; }

private:
    std::string_view left_;
    std::uint64_t length_;
};

struct Ask {
    std::string method = "POST", target = "/", service = "sagemaker", region = "us-east-1", body;
    std::vector<std::pair<std::string, std::string>> headers;
    bool unsigned_request = false;
};

/// The test clock stands still unless moved.
struct Desk {
    sys::TempDir folder;
    test::FakeClock clock;
    SystemIds ids;
    store::Db db{folder.path() / "state.db", {.durability = store::DbOptions::Durability::normal}};
    IdleEngine engine;
    jobs::JobService jobs{
        db,
        engine,
        clock,
        ids,
        {.control_plane = "http://127.0.0.1:1", .credentials = [](const AttemptId& attempt) {
             return plan::Credentials{"AKIA" + attempt.str(), "secret", "token"};
         }}};
    objects::ObjectStore objects{folder.path() / "objects", db, clock};
    telemetry::LogStore logs{folder.path() / "logs", clock};
    telemetry::MetricStore metrics{db};
    telemetry::MetricTap tap{logs, db};
    images::Catalogue images{{}, {}};
    aws::Credentials root{"AKIAROOT", "root-secret", ""};
    Services services{jobs,    objects, logs,
                      metrics, tap,     images,
                      clock,   ids,     {.root = root, .endpoint = "http://127.0.0.1:4545"}};
    http::Handler handler = make_router(services);

    /// Signed by `keys`, the owner unless said.
    http::Response send(const Ask& ask, const aws::Credentials& keys) {
        http::ClientRequest client;
        client.method = ask.method;
        client.target = ask.target;
        for (const auto& [name, value] : ask.headers) client.headers.add(name, value);
        if (!ask.unsigned_request)
            aws::sign(client, "127.0.0.1:4545", keys, ask.region, ask.service, clock.now(),
                      sha256_hex(ask.body));
        http::Request request;
        request.method = ask.method;
        const auto mark = std::min(ask.target.find('?'), ask.target.size());
        request.path = ask.target.substr(0, mark);
        request.query = mark < ask.target.size() ? ask.target.substr(mark + 1) : "";
        for (const auto& [name, value] : client.headers) request.headers.add(name, value);
        if (!request.headers.contains("host")) request.headers.add("Host", "127.0.0.1:4545");
        TextBody body(ask.body);
        request.body = &body;
        return handler(request);
    }
    http::Response send(const Ask& ask) { return send(ask, root); }

    http::Response json(const std::string& target, std::string body,
                        const std::string& service = "sagemaker") {
        return send({.service = service,
                     .body = std::move(body),
                     .headers = {{"X-Amz-Target", target},
                                 {"Content-Type", "application/x-amz-json-1.1"}}});
    }
    http::Response form(std::string body, const std::string& service,
                        const std::string& region = "us-east-1") {
        return send(
            {.service = service,
             .region = region,
             .body = std::move(body),
             .headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}}});
    }
};

}  // namespace ty::api::testing
