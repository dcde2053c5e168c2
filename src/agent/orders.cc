// SPDX-License-Identifier: Apache-2.0
#include "agent/orders.h"

#include "base/format.h"

#include <algorithm>

namespace ty::agent {

void Orders::obey(std::uint64_t number, const plan::Command& command) {
    struct Done {
        bool ends = false, noticed = false;
    };
    const Done done = state_.with([&](State& state) {
        // Two threads carry commands: the later one may be here first.
        if (number >= state.next) state.early.emplace(number, command);
        Done what;
        for (auto found = state.early.find(state.next); found != state.early.end();
             found = state.early.find(++state.next)) {
            apply(state.now, found->second);
            what.noticed = what.noticed || std::holds_alternative<plan::Interrupt>(found->second);
            state.early.erase(found);
        }
        what.ends = state.now.ends();
        return what;
    });
    if (done.noticed)
        tasks_.start("notice", [this](const std::stop_token& stop) {
            const Deadline by = now().leave_by;
            if (sys::pause(by, stop)) expired_.request_stop();
        });
    if (done.ends) halted_.request_stop();
    state_.notify();
    wake_.notify();
}

void Orders::apply(Now& now, const plan::Command& command) {
    if (const auto* stop = std::get_if<plan::Stop>(&command)) {
        now.stop = !now.interrupt;
        now.grace = std::max(seconds(0), stop->grace);
    } else if (const auto* interrupt = std::get_if<plan::Interrupt>(&command)) {
        now.interrupt = !now.stop;
        now.leave_by = Deadline::earlier(now.leave_by, Deadline::in(interrupt->notice));
        if (now.why.empty()) now.why = interrupt->why;
    } else if (const auto* freeze = std::get_if<plan::Freeze>(&command)) {
        const Deadline until = Deadline::in(freeze->time);
        if (!now.frozen_until || now.frozen_until->point() < until.point())
            now.frozen_until = until;
    } else if (const auto* partition = std::get_if<plan::Partition>(&command)) {
        partition_.begin(partition->time);
    } else if (const auto* finish = std::get_if<plan::Finish>(&command)) {
        now.finish = *finish;
    }
}

void Orders::give_up() {
    state_.with([](State& state) { state.now.gone = true; });
    state_.notify();
    halted_.request_stop();
    expired_.request_stop();
    gone_.request_stop();
    wake_.notify();
}

std::optional<std::string> Orders::take_notice() {
    return state_.with([](State& state) -> std::optional<std::string> {
        if (!state.now.interrupt || state.noticed) return std::nullopt;
        state.noticed = true;
        return format("this instance goes away in {:.1f} s: {}",
                      static_cast<double>(state.now.leave_by.left().count()) / 1000.0,
                      state.now.why.empty() ? "no reason given" : state.now.why);
    });
}

Orders::Now Orders::wait_for_finish(Patience patience) {
    const auto ready = [](const State& state) { return state.now.finish || state.now.gone; };
    const Now first = state_.wait(
        Deadline::never(), {},
        [&](const State& state) { return ready(state) || !state.now.leave_by.is_never(); },
        [](const State& state) { return state.now; });
    if (first.finish || first.gone || patience == Patience::none) return first;
    return state_.wait(first.leave_by, {}, ready, [](const State& state) { return state.now; });
}

}  // namespace ty::agent
