// SPDX-License-Identifier: Apache-2.0
#include "agent/partition.h"

#include "base/log.h"
#include "base/result.h"
#include "sys/sys.h"

#include <algorithm>

namespace ty::agent {

Partition::Partition() = default;

Partition::~Partition() {
    tasks_.stop_and_join();
}

void Partition::begin(milliseconds time) {
    const Monotonic until = Deadline::in(time).point();
    struct Begun {
        bool first = false;
        std::stop_source source{std::nostopstate};
    };
    Begun begun = state_.with([&](State& state) {
        state.until = std::max(state.until, until);
        const bool first = !state.cut;
        state.cut = true;
        return Begun{first, state.source};
    });
    begun.source.request_stop();  // what is on its way is lost
    if (begun.first) tasks_.start("partition", [this](const std::stop_token& stop) { work(stop); });
}

void Partition::work(const std::stop_token& stop) {
    set_link(false);
    for (bool over = false; !over;) {
        const Monotonic until = state_.with([](const State& state) { return state.until; });
        if (!sys::pause(Deadline::at(until), stop)) break;
        over = state_.with([&](const State& state) { return state.until <= until; });
    }
    set_link(true);
    state_.with([](State& state) {
        state.cut = false;
        state.source = std::stop_source();
    });
    state_.notify();
}

void Partition::set_link(bool up) {
    const SetLink set = state_.with([](State& state) {
        state.busy = state.set_link != nullptr;
        return state.set_link;
    });
    if (!set) return;
    const Result<std::monostate> done = capture([&] { set(up); });
    if (!done.ok())
        log::warning("the host's link was not changed",
                     {{"up", up ? "yes" : "no"}, {"error", done.error().what()}});
    state_.with([](State& state) { state.busy = false; });
    state_.notify();
}

void Partition::attach(SetLink set_link) {
    const bool cut = state_.wait(
        Deadline::never(), {}, [](const State& state) { return !state.busy; },
        [&](State& state) {
            state.set_link = set_link;
            return state.cut;
        });
    if (cut && set_link) set_link(false);  // it began before there was a link
}

bool Partition::is_cut() const {
    return state_.with([](const State& state) { return state.cut; });
}

bool Partition::wait_connected(const std::stop_token& stop) const {
    return state_.wait(
        Deadline::never(), stop, [](const State& state) { return !state.cut; },
        [](const State& state) { return !state.cut; });
}

std::stop_token Partition::cut() const {
    return state_.with([](const State& state) { return state.source.get_token(); });
}

}  // namespace ty::agent
