// SPDX-License-Identifier: Apache-2.0
// The local engine against agents that are shell scripts.
#include "engine/local/local.h"
#include "base/error.h"
#include "base/sync.h"
#include "base/text.h"
#include "engine/local/gpus.h"
#include "engine/local/leftovers.h"
#include "engine/local/run_folder.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <csignal>

#include <sys/stat.h>

using namespace ty;
using namespace ty::engine;
namespace fs = std::filesystem;

namespace {

struct World {
    sys::TempDir dir{"engine"};
    Sync<std::vector<Allocation>> told;
    std::unique_ptr<Engine> engine;

    /// $1 is "run", $2 the folder.
    explicit World(const std::string& script) {
        sys::write_file(
            agent(), "#!/bin/sh\necho started >> \"$2/../../../starts\"\n" + script + "\n", 0755);
        ::chmod(agent().c_str(), 0755);
        open();
    }
    ~World() {
        if (!engine) open();
        for (const Allocation& a : engine->list()) engine->release(a.attempt);
    }
    fs::path agent() const { return dir.path() / "agent"; }
    fs::path folder(const std::string& host = "algo-1") const {
        return dir.path() / "state/runs/j-a.1" / host;
    }
    void open() {
        engine = make_local({agent(), dir.path() / "state", 4});
        engine->on_gone([this](const Allocation& a) {
            told.with([&](std::vector<Allocation>& list) { list.push_back(a); });
            told.notify();
        });
    }
    void launch(std::vector<std::string> hosts = {"algo-1"}) {
        Placement placement{AttemptId("j-a.1"), {}};
        for (const std::string& host : hosts)
            placement.agents.push_back({host, "http://127.0.0.1:1", "secret"});
        engine->launch(placement);
    }
    /// Several hosts, which share a network.
    void launch_networked(const std::vector<std::string>& hosts, int gpus = 0) {
        Placement placement{AttemptId("j-a.1"), {}, Network{.hosts = 2}, gpus};
        for (const std::string& host : hosts)
            placement.agents.push_back({host, "http://127.0.0.1:1", "secret"});
        engine->launch(placement);
    }
    std::vector<int> gpus(const std::string& host) const {
        return RunFolder(folder(host)).read_gpus();
    }
    std::optional<AgentState> state(const std::string& host) const {
        for (const Allocation& one : engine->list())
            if (one.host == host) return one.state;
        return std::nullopt;
    }
    std::size_t starts() const {
        const fs::path file = dir.path() / "state/starts";
        return fs::exists(file) ? split(trim(sys::read_file(file)), '\n').size() : 0;
    }
    /// Poll for what another process does.
    template <typename Fn>
    bool eventually(Fn&& fn) {
        const Deadline by = Deadline::in(seconds(20));
        while (!by.passed()) {
            if (fn()) return true;
            sys::pause(Deadline::in(milliseconds(2)), {});
        }
        return false;
    }
    std::optional<Allocation> wait_gone() {
        return told.wait(
            Deadline::in(seconds(20)), {}, [](const auto& list) { return !list.empty(); },
            [](auto& list) { return list.empty() ? std::nullopt : std::optional(list.back()); });
    }
};

}  // namespace

TEST_CASE(
    "an agent gets its folder with a private start file, and its death is told with the signal") {
    World world("exec sleep 1000");
    world.launch();
    CHECK(world.engine->list().at(0).state == AgentState::running);
    const std::string start = sys::read_file(world.folder() / "start.json");
    CHECK(start.find("http://127.0.0.1:1") != std::string::npos);
    CHECK(start.find("secret") != std::string::npos);
    struct stat info = {};
    REQUIRE(::stat((world.folder() / "start.json").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(RunFolder(world.folder()).is_locked());

    ::kill(RunFolder(world.folder()).read_pid().value().pid, SIGKILL);
    const auto gone = world.wait_gone();
    REQUIRE(gone.has_value());
    CHECK(gone->attempt == AttemptId("j-a.1"));
    CHECK(gone->ending == "SIGKILL (signal 9)");
    CHECK(world.engine->list().at(0).state == AgentState::gone);
    CHECK(world.eventually([&] { return !RunFolder(world.folder()).is_locked(); }));
}

TEST_CASE("what the agent prints is kept beside it") {
    World world("echo hello; echo bad >&2; exit 3");
    world.launch();
    REQUIRE(world.wait_gone().has_value());
    CHECK(world.wait_gone()->ending == "exit code 3");
    CHECK(sys::read_file(world.folder() / "agent.log") == "hello\nbad\n");
}

TEST_CASE("launching again starts nothing, neither while it runs nor after it ended") {
    World world("[ -e \"$2/go\" ] || exec sleep 1000");
    world.launch();
    world.launch();
    REQUIRE(world.eventually([&] { return world.starts() == 1; }));
    ::kill(RunFolder(world.folder()).read_pid().value().pid, SIGKILL);
    REQUIRE(world.wait_gone().has_value());
    world.launch();
    world.engine.reset();
    world.open();
    world.launch();
    CHECK(world.engine->list().at(0).state == AgentState::gone);
    CHECK(world.starts() == 1);
}

TEST_CASE("an agent survives its engine, is adopted by the next one and its death is still seen") {
    World world("exec sleep 1000");
    world.launch({"algo-1", "algo-2"});
    REQUIRE(world.eventually([&] { return world.starts() == 2; }));
    const int pid = RunFolder(world.folder()).read_pid().value().pid;
    world.engine.reset();
    CHECK(is_alive({pid, 0}));
    world.open();
    REQUIRE(world.engine->list().size() == 2);
    CHECK(world.engine->list().at(0).state == AgentState::running);
    world.launch({"algo-1", "algo-2"});
    ::kill(pid, SIGKILL);
    const auto gone = world.wait_gone();
    REQUIRE(gone.has_value());
    CHECK(gone->host == "algo-1");
    CHECK(world.engine->list().at(1).state == AgentState::running);
    CHECK(world.starts() == 2);
}

TEST_CASE("an agent spawned by a daemon that died before noting its pid counts as running") {
    World world("exec sleep 1000");
    RunFolder folder(world.folder("algo-9"));
    folder.create();
    {
        const sys::Fd held = folder.lock();  // stands for the inherited descriptor
        world.engine.reset();
        world.open();
        CHECK(world.engine->list().at(0).state == AgentState::running);
        world.launch({"algo-9"});
        CHECK(world.starts() == 0);
    }
    const auto gone = world.wait_gone();  // lock dropped without a pid: it ended
    REQUIRE(gone.has_value());
    CHECK(gone->host == "algo-9");
}

TEST_CASE("a folder whose agent was never started is no agent: launching starts it") {
    World world("exec sleep 1000");
    RunFolder(world.folder()).create();  // the daemon died here, the lock is free
    world.engine.reset();
    world.open();
    CHECK(world.engine->list().empty());
    world.launch({"algo-1"});
    CHECK(world.eventually([&] { return world.starts() == 1; }));
    CHECK(world.engine->list().at(0).state == AgentState::running);
}

TEST_CASE("release kills the agent with everything it started and removes even read-only folders") {
    World world(
        "mkdir -p \"$2/box/deep\"; : > \"$2/box/deep/f\"; chmod 500 \"$2/box/deep\" \"$2/box\"\n"
        "sleep 1000 & echo $! > \"$2/one\"\n"
        "setsid sleep 1000 & echo $! > \"$2/two\"\n"
        ": > \"$2/ready\"; wait");
    world.launch();
    REQUIRE(world.eventually([&] { return fs::exists(world.folder() / "ready"); }));
    std::vector<int> pids = {RunFolder(world.folder()).read_pid().value().pid};
    for (const char* name : {"one", "two"})
        pids.push_back(
            static_cast<int>(parse_int(trim(sys::read_file(world.folder() / name))).value()));
    world.engine->release(AttemptId("j-a.1"));
    CHECK(world.engine->list().empty());
    CHECK_FALSE(fs::exists(world.folder().parent_path()));
    for (const int pid : pids) CHECK(world.eventually([&] { return !is_alive({pid, 0}); }));
    CHECK(world.eventually([&] { return fs::is_empty(world.dir.path() / "state/runs.trash"); }));
    CHECK(world.told.with([](const auto& list) { return list.empty(); }));
    world.engine->release(AttemptId("j-a.1"));  // idempotent
}

TEST_CASE("a missing agent program fails the launch and leaves nothing running") {
    World world("exit 0");
    fs::remove(world.agent());
    CHECK_THROWS_AS(world.launch(), Error);
    CHECK(world.engine->list().empty());
}

TEST_CASE("a pid that belongs to another process now is not mistaken for the agent") {
    sys::ProcessStat self;
    REQUIRE(sys::read_process(::getpid(), self));
    CHECK(is_alive({::getpid(), self.start_ticks}));
    CHECK_FALSE(is_alive({::getpid(), self.start_ticks + 1}));
    CHECK_FALSE(watch_process({::getpid(), self.start_ticks + 1}).is_open());
    const std::vector<Leftovers> none = {{0, "/nowhere/at/all"}};
    CHECK(kill_leftovers(none, Deadline::in(seconds(5))) == 0);
}

TEST_CASE("hosts that share a network find its process started before them, in a private folder") {
    World world("echo \"$1 $(ls $2)\" >&2; exec sleep 1000");
    world.launch_networked({"algo-1", "algo-2"});
    REQUIRE(world.eventually([&] { return world.starts() == 3; }));
    const std::string socket = (world.folder("network") / "socket").string();
    for (const char* host : {"algo-1", "algo-2"}) {
        CHECK(sys::read_file(world.folder(host) / "start.json").find(socket) != std::string::npos);
    }
    const std::string orders = sys::read_file(world.folder("network") / "network.json");
    CHECK(orders == R"({"hosts":2,"rendezvous":null,"control_plane":"http://127.0.0.1:1"})");
    struct stat info = {};
    REQUIRE(::stat((world.folder("network") / "network.json").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(world.eventually([&] {
        return sys::read_file(world.folder("network") / "agent.log").starts_with("network ");
    }));
    CHECK(world.state(kNetworkHost) == AgentState::running);

    // Once more changes nothing; further hosts come to the same network.
    world.launch_networked({"algo-1", "algo-2"});
    world.launch({"algo-2~2"});
    REQUIRE(world.eventually([&] { return world.starts() == 4; }));
    CHECK(sys::read_file(world.folder("algo-2~2") / "start.json").find(socket) !=
          std::string::npos);
}

TEST_CASE("one host alone has no network process") {
    World world("exec sleep 1000");
    world.launch();
    CHECK_FALSE(fs::exists(world.folder("network")));
    CHECK(sys::read_file(world.folder() / "start.json").find(R"("network":"")") !=
          std::string::npos);
}

TEST_CASE("the death of a network process is told, also to the next daemon") {
    World world("exec sleep 1000");
    world.launch_networked({"algo-1", "algo-2"});
    world.engine.reset();
    world.open();
    CHECK(world.state(kNetworkHost) == AgentState::running);
    ::kill(RunFolder(world.folder("network")).read_pid().value().pid, SIGKILL);
    const auto gone = world.wait_gone();
    REQUIRE(gone.has_value());
    CHECK(gone->host == kNetworkHost);
    CHECK(world.state("algo-1") == AgentState::running);
    world.launch_networked({"algo-1", "algo-2", "algo-3"});  // not started a second time
    CHECK(world.state(kNetworkHost) == AgentState::gone);
}

TEST_CASE("one node is killed, or released, and the others go on") {
    World world("exec sleep 1000");
    const AttemptId attempt("j-a.1");
    world.launch_networked({"algo-1", "algo-2"});
    REQUIRE(world.eventually([&] { return world.starts() == 3; }));
    world.engine->kill(attempt, "algo-2");
    const auto gone = world.wait_gone();
    REQUIRE(gone.has_value());
    CHECK(gone->host == "algo-2");
    CHECK(gone->ending == "SIGKILL (signal 9)");
    world.engine->kill(attempt, "algo-2");  // nothing, as for one that never was
    world.engine->kill(attempt, "algo-9");

    world.engine->release(attempt, "algo-2");
    world.engine->release(attempt, "algo-2");
    CHECK_FALSE(fs::exists(world.folder("algo-2")));
    CHECK_FALSE(world.state("algo-2").has_value());
    const int pid = RunFolder(world.folder("algo-1")).read_pid().value().pid;
    world.engine->release(attempt, "algo-1");
    CHECK_FALSE(is_alive({pid, 0}));
    CHECK(world.state(kNetworkHost) == AgentState::running);
    world.launch_networked({"algo-2~2"});
    CHECK(world.state("algo-2~2") == AgentState::running);
    CHECK(world.told.with([](const auto& list) { return list.size() == 1; }));
}

TEST_CASE("GPUs are given out once, and given back") {
    World world("exec sleep 1000");
    world.launch_networked({"algo-1", "algo-2"}, 1);
    CHECK(world.gpus("algo-1") == std::vector<int>{0});
    CHECK(world.gpus("algo-2") == std::vector<int>{1});
    world.engine->release(AttemptId("j-a.1"), "algo-1");
    world.engine.reset();
    world.open();  // an adopted agent keeps its own
    world.launch_networked({"algo-3"}, 2);
    CHECK(world.gpus("algo-3") == std::vector<int>{0, 2});
    CHECK_THROWS_WITH_AS(world.launch_networked({"algo-4", "algo-5"}, 1),
                         doctest::Contains("1 of this machine's 4 are free"), Error);
    CHECK_FALSE(world.state("algo-4").has_value());  // all or none
    world.launch_networked({"algo-4"}, 1);
    CHECK(world.gpus("algo-4") == std::vector<int>{3});
    CHECK(world.engine->capacity().gpus == 4);
}
