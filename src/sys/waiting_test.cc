// SPDX-License-Identifier: Apache-2.0
#include "sys/waiting.h"

#include "sys/poller.h"
#include "sys/signals.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace ty;
using namespace ty::sys;

TEST_CASE("a wait ends by readiness, hang-up, deadline or stop") {
    Pipe pipe = make_pipe();
    CHECK(wait(pipe.read.get(), Readiness::readable, Deadline::in(milliseconds(1))) ==
          Waited::timed_out);
    CHECK(wait(pipe.write.get(), Readiness::writable, Deadline::never()) == Waited::ready);
    std::stop_source stop;
    std::jthread stopper([&stop] { stop.request_stop(); });
    CHECK(wait(pipe.read.get(), Readiness::readable, Deadline::never(), stop.get_token()) ==
          Waited::stopped);
    CHECK(wait(pipe.write.get(), Readiness::writable, Deadline::never(), stop.get_token()) ==
          Waited::stopped);
    pipe.write.close();
    CHECK(wait(pipe.read.get(), Readiness::readable, Deadline::never()) == Waited::ready);
}

TEST_CASE("a pause tells whether time passed or stop came") {
    std::stop_source stop;
    CHECK(pause(Deadline::in(milliseconds(1)), stop.get_token()));
    std::jthread stopper([&stop] { stop.request_stop(); });
    CHECK_FALSE(pause(Deadline::never(), stop.get_token()));
}

TEST_CASE("a wake descriptor is readable from notify to drain") {
    WakeFd wake;
    wake.notify();
    wake.notify();
    CHECK(wait(wake.fd(), Readiness::readable, Deadline::in(milliseconds(0))) == Waited::ready);
    wake.drain();
    CHECK(wait(wake.fd(), Readiness::readable, Deadline::in(milliseconds(0))) == Waited::timed_out);
}

TEST_CASE("the poller calls back for descriptors and timers, and callbacks may remove each other") {
    Poller poller;
    WakeFd a;
    WakeFd b;
    std::vector<std::string> seen;
    poller.add(a.fd(), [&] {
        seen.push_back("a");
        poller.remove(a.fd());
        poller.remove(b.fd());
    });
    poller.add(b.fd(), [&] {
        seen.push_back("b");
        poller.remove(a.fd());
        poller.remove(b.fd());
    });
    a.notify();
    b.notify();
    CHECK(poller.run_once(Deadline::in(seconds(5)), {}));
    CHECK(seen.size() == 1);

    poller.set_timer("t", Deadline::never(), [&] { seen.push_back("late"); });
    poller.set_timer("t", Deadline::in(milliseconds(2)), [&] {
        seen.push_back("t");
        poller.set_timer("t", Deadline::never(), [] {});
    });
    while (seen.size() < 2) CHECK(poller.run_once(Deadline::in(seconds(5)), {}));
    CHECK(seen.back() == "t");
}

TEST_CASE("the poller stops while it waits") {
    Poller poller;
    std::stop_source stop;
    std::jthread stopper([&stop] { stop.request_stop(); });
    while (poller.run_once(Deadline::never(), stop.get_token())) continue;
    CHECK(stop.stop_requested());
}

TEST_CASE("signals arrive as numbers on a descriptor") {
    SignalFd signals{SIGUSR1, SIGUSR2};
    CHECK(signals.next() == 0);
    ::kill(::getpid(), SIGUSR2);
    CHECK(wait(signals.fd(), Readiness::readable, Deadline::in(seconds(5))) == Waited::ready);
    CHECK(signals.next() == SIGUSR2);
    CHECK(signals.next() == 0);
}
