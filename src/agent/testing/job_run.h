// SPDX-License-Identifier: Apache-2.0
// A whole job against a daemon in memory: one agent, or several as nodes of one attempt, each on a
// thread of this process. For the process tests; their program is its own box, launcher and network
// process.
#pragma once

#include "agent/agent.h"
#include "agent/network/network.h"
#include "agent/sandbox/sandbox.h"
#include "agent/testing/fake_daemon.h"
#include "agent/transfer/unpack.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ty::agent {

/// One job from start to end; the agent runs on its own thread, as its process would.
class JobRun {
public:
    JobRun() = default;
    /// A failed test shows what the agents said, and does not wait for them.
    ~JobRun() {
        if (std::uncaught_exceptions() > 0) {
            for (const std::string node : {"algo-1", "algo-2", "algo-3"}) {
                for (const std::string& line : daemon.lines(node)) MESSAGE((node + ": " + line));
            }
        }
        daemon.forget();
    }
    JobRun(const JobRun&) = delete;
    JobRun& operator=(const JobRun&) = delete;

    FakeDaemon daemon;

    void start(const std::string& node = "algo-1") {
        daemon.prepare(folder(node), node);
        tasks_.start("agent", [this, node](const std::stop_token&) { run_agent(folder(node)); });
    }
    /// All that were started have ended; the end of one.
    plan::Finished wait(const std::string& node = "algo-1") {
        tasks_.stop_and_join();
        const auto end = daemon.finished(node);
        REQUIRE(end.has_value());
        CHECK(daemon.complaints().empty());
        CHECK(sys::fs::exists(folder(node) / "agent.done"));
        return *end;
    }
    plan::Finished run() {
        start();
        return wait();
    }
    /// A program given as shell text, without the toolkit.
    void shell(const std::string& text) { daemon.plan.entrypoint = {"/bin/sh", "-c", text}; }
    /// Script mode with these source files.
    void source(const std::vector<std::pair<std::string, std::string>>& files,
                const std::string& program) {
        const sys::fs::path code = dir_.path() / "source";
        for (const auto& [name, content] : files) {
            sys::fs::create_directories((code / name).parent_path());
            sys::write_file(code / name, content);
        }
        const std::string archive = (dir_.path() / "source.tar.gz").string();
        const sys::Output tar =
            sys::run({.argv = {"tar", "-czf", archive, "-C", code.string(), "."}},
                     Deadline::in(std::chrono::seconds(20)));
        REQUIRE(tar.exit.ok());
        daemon.put_object("src/source.tar.gz", sys::read_file(archive));
        daemon.plan.environment.toolkit = true;
        daemon.plan.hyperparameters.emplace_back("sagemaker_program", "\"" + program + "\"");
        daemon.plan.hyperparameters.emplace_back("sagemaker_submit_directory",
                                                 "\"s3://src/source.tar.gz\"");
    }
    /// The network process of the attempt; false: there can be none here.
    bool connect(int hosts, const Json& rendezvous = nullptr) {
        const sys::fs::path place = dir_.path() / "runs/j-test.1/network";
        sys::fs::create_directories(place);
        sys::write_file(place / "network.json",
                        dump_json(Json{{"hosts", hosts}, {"rendezvous", rendezvous}}));
        network_ = sys::Child::spawn({.argv = {"/proc/self/exe", "network", place.string()}});
        daemon.network = (place / "socket").string();
        try {
            JobNetwork::join(daemon.network, "algo-1", daemon.url().substr(7),
                             Deadline::in(std::chrono::seconds(20)));
            return true;
        } catch (const Error& error) {
            MESSAGE("skipped: no network for several hosts: " << error.what());
            return false;
        }
    }
    sys::fs::path folder(const std::string& node = "algo-1") const {
        return dir_.path() / "runs/j-test.1" / node;
    }
    const sys::TempDir& dir() const { return dir_; }
    /// Members of an uploaded archive: name to content.
    std::string member(const std::string& object, const std::string& name) {
        const auto content = daemon.object(object);
        REQUIRE_MESSAGE(content.has_value(), object);
        const sys::fs::path out = dir_.path() / "unpacked" / object;
        sys::fs::create_directories(out);
        unpack(ty::as_bytes(*content), object, out);
        return sys::fs::exists(out / name) ? sys::read_file(out / name) : "(missing)";
    }

private:
    sys::TempDir dir_;
    std::optional<sys::Child> network_;
    TaskGroup tasks_;
};

inline bool has_namespaces() {
    const ProbeResult probe = Probe().finish();
    if (probe.rung != Rung::namespaces) MESSAGE("skipped: no namespaces here: " << probe.why);
    return probe.rung == Rung::namespaces;
}

}  // namespace ty::agent
