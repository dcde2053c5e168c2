// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/outside/node_socket.h"

#include "base/error.h"

#include <doctest/doctest.h>

#include <array>

#include <sys/socket.h>
#include <sys/un.h>

using namespace ty;
using namespace ty::agent;

namespace {

using Words = std::vector<std::string>;

/// The agent's end, and what the launcher's end made of its words.
struct Bench {
    sys::TempDir dir;
    std::string path = (dir.path() / "agent").string();
    sys::Fd listener = listen(path);
    sys::Poller poller;
    Words seen;
    std::optional<NodeSocket> socket;
    sys::Fd agent;

    explicit Bench(milliseconds patience = milliseconds(60000)) {
        socket.emplace(
            poller, path, patience,
            NodeSocket::Events{
                .on_leave =
                    [this](milliseconds within, const std::string& why) {
                        seen.push_back(format("leave in {}: {}", within.count(), why));
                    },
                .on_gone = [this](const std::string& why) { seen.push_back("gone: " + why); }});
        agent = sys::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }

    static sys::Fd listen(const std::string& path) {
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        sys::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(::listen(fd.get(), 1) == 0);
        return fd;
    }
    void ask(const std::string& question) {
        socket->ask(question, [this, question](const std::optional<std::string>& failure) {
            seen.push_back(question + ": " + failure.value_or("ok"));
        });
    }
    std::string heard() const {
        std::array<char, 4096> buffer{};
        const ssize_t got = ::recv(agent.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
    }
    void say(std::string_view text) { sys::write_all(agent.get(), text); }
    void until_seen(std::size_t count) {
        const Deadline by = Deadline::in(seconds(10));
        while (seen.size() < count && !by.passed()) poller.run_once(by, {});
        REQUIRE(seen.size() == count);
    }
};

}  // namespace

TEST_CASE("questions to the agent are put one after the other, in order") {
    Bench bench;
    bench.ask("stopped 4");
    bench.ask("starting 5 2 0");
    bench.socket->tell("ended 4 resize");
    CHECK(bench.heard() == "stopped 4\nended 4 resize\n");
    bench.say("o");
    bench.say("k\n");
    bench.until_seen(1);
    CHECK(bench.heard() == "starting 5 2 0\n");
    bench.say("failed no such bucket: \"b\"\n");
    bench.until_seen(2);
    CHECK(bench.seen == Words{"stopped 4: ok", "starting 5 2 0: no such bucket: \"b\""});
}

TEST_CASE("the agent may say leave at any time, and what makes no sense is passed over") {
    Bench bench;
    bench.ask("stopped 1");
    bench.say(
        "leave 1500 the machine is needed\nok, fine\nleave soon\nleave -1 x\nleave 0\nok\nok\n");
    bench.until_seen(3);
    CHECK(bench.seen ==
          Words{"leave in 1500: the machine is needed", "leave in 0: ", "stopped 1: ok"});
}

TEST_CASE("an agent that hangs up is gone once, and no question is answered any more") {
    Bench bench;
    bench.ask("stopped 1");
    bench.agent.close();
    bench.until_seen(1);
    CHECK(bench.seen.front().starts_with("gone: "));
    CHECK_FALSE(bench.socket->is_open());
    bench.socket->tell("running 2 1");
}

TEST_CASE("an agent that leaves a question unanswered is gone") {
    Bench bench(milliseconds(5));
    bench.ask("stopped 1");
    bench.until_seen(1);
    CHECK(bench.seen == Words{"gone: no answer to \"stopped 1\" within 0 s"});
}

TEST_CASE("an agent that reads nothing for ever is gone") {
    Bench bench;
    for (int line = 0; line < 100000 && bench.socket->is_open(); ++line) {
        bench.socket->tell("running 1 1");
    }
    bench.until_seen(1);
    CHECK(bench.seen.front().starts_with("gone: "));
}

TEST_CASE("where no agent listens the launcher says where it looked") {
    sys::Poller poller;
    CHECK_THROWS_WITH_AS(NodeSocket(poller, "/nowhere/agent", seconds(1), {}),
                         doctest::Contains("/nowhere/agent"), Error);
    CHECK_THROWS_AS(NodeSocket(poller, std::string(200, 'x'), seconds(1), {}), Error);
}
