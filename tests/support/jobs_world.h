// SPDX-License-Identifier: Apache-2.0
// For tests: JobService with a database in a temporary folder, the fake engine and a clock that
// stands still. Waits are for other threads and bounded.
#pragma once

#include "base/text.h"
#include "engine/fake/fake.h"
#include "jobs/jobs.h"
#include "sys/sys.h"
#include "tests/support/fake_clock.h"

#include <doctest/doctest.h>

namespace ty::jobs::testing {

struct World {
    sys::TempDir dir{"jobs"};
    store::Db db{dir.path() / "db"};
    std::unique_ptr<engine::FakeEngine> engine = std::make_unique<engine::FakeEngine>();
    test::FakeClock clock;
    SystemIds ids;
    Placing placing;
    std::unique_ptr<JobService> service;

    World() {
        placing.control_plane = "http://127.0.0.1:9";
        placing.credentials = [](const AttemptId& attempt) {
            return plan::Credentials{"KEY-" + attempt.str(), "secret", "token"};
        };
        placing.max_running = 2;
        placing.clock_check = milliseconds(1);  // the clock moves without a word
        start();
    }
    void start() { service = std::make_unique<JobService>(db, *engine, clock, ids, placing); }
    void restart() {
        service.reset();
        start();
    }

    static JobSpec spec(const std::string& name, int hosts = 1) {
        JobSpec spec;
        spec.name = name;
        spec.region = "us-east-1";
        spec.account = "000000000000";
        spec.arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/" + to_lower(name);
        spec.instance_count = hosts;
        spec.node.hyperparameters = {{"b", "1"}, {"a", "2"}};
        spec.node.limits.stop_grace = seconds(7);
        return spec;
    }
    Job create(JobSpec spec) { return service->create(std::move(spec), "{}", {}, ""); }
    Job create(const std::string& name, int hosts = 1, const std::string& idempotency = {}) {
        return service->create(spec(name, hosts), "{\"doc\":1}", {}, idempotency);
    }
    Job job(const std::string& name) { return service->find("us-east-1", name).value(); }

    /// Wait until the job satisfies `what`.
    template <typename Fn>
    bool eventually(const std::string& name, Fn&& what) {
        const Deadline by = Deadline::in(seconds(20));
        while (!by.passed()) {
            if (what(job(name))) return true;
            sys::pause(Deadline::in(milliseconds(1)), {});
        }
        return false;
    }
    bool terminal(const std::string& name) {
        return eventually(name, [](const Job& j) { return is_terminal(j.status); });
    }
    std::string token(std::size_t launch, std::size_t agent = 0) {
        REQUIRE(engine->wait_launched(launch + 1, Deadline::in(seconds(20))));
        return engine->launched().at(launch).agents.at(agent).token;
    }
    JobService::AgentIdentity agent(std::size_t launch, std::size_t host = 0) {
        return service->authenticate(token(launch, host)).value();
    }
    plan::SyncReply send(const JobService::AgentIdentity& who, std::vector<plan::Payload> payloads,
                         std::uint64_t first = 1) {
        plan::SyncRequest request;
        request.host = who.host;
        for (plan::Payload& payload : payloads)
            request.events.push_back({first++, clock.now(), who.host, std::move(payload)});
        return service->sync(who, request, {});
    }
    /// The node's identity in the job's current attempt, when the engine was asked to start it.
    JobService::AgentIdentity node(const std::string& name, const std::string& node) {
        const bool started = eventually(name, [&](const Job& job) {
            const auto& nodes = job.attempts.back().nodes;
            const auto found = nodes.find(node);
            return found != nodes.end() && found->second.launched;
        });
        REQUIRE(started);
        return {job(name).attempts.back().id, node, "us-east-1", name};
    }
    bool attempt(const std::string& name, int number) {
        return eventually(name, [number](const Job& j) {
            return j.attempts.back().number == number && j.attempts.back().launched;
        });
    }
    /// All commands of a node so far.
    std::vector<plan::Command> commands(const JobService::AgentIdentity& who) {
        std::vector<plan::Command> all;
        plan::SyncRequest request;
        request.host = who.host;
        for (;;) {
            const plan::SyncReply reply = service->sync(who, request, {});
            if (!reply.command) return all;
            REQUIRE(reply.command_number == ++request.commands_seen);
            all.push_back(*reply.command);
        }
    }
};

}  // namespace ty::jobs::testing
