// SPDX-License-Identifier: Apache-2.0
// What the agent has been told from outside: stop, leave, stand still, finish, or give everything
// up. Written by the uplink's and the pump's threads and the signal reader, obeyed by the main
// thread wherever it is: it asks now(), waits on wake(), or gives one of the tokens to what may
// last.
#pragma once

#include "agent/partition.h"
#include "base/sync.h"
#include "plan/plan.h"
#include "sys/sys.h"

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

namespace ty::agent {

class Orders {
public:
    struct Now {
        bool stop = false;       ///< end the program kindly, keep its results
        bool interrupt = false;  ///< the machine goes away (said before any stop): no results
        bool gone = false;       ///< nobody waits for results: end it at once
        seconds grace{120};      ///< of `stop`
        Deadline leave_by = Deadline::never();  ///< end of the notice, also after a stop
        std::string why;                        ///< of `interrupt`
        std::optional<Deadline> frozen_until;   ///< the program stands still until then
        std::optional<plan::Finish> finish;
        bool ends() const { return stop || interrupt || gone; }
    };

    explicit Orders(Partition& partition) : partition_(partition) {}

    /// A command of the control plane. Numbers count from 1; one that comes before its turn waits
    /// for those in front of it. Any thread.
    void obey(std::uint64_t number, const plan::Command& command);
    /// Nobody waits for this job any more. Any thread.
    void give_up();

    Now now() const {
        return state_.with([](const State& state) { return state.now; });
    }
    /// What the job's log should say about an interruption; nothing the second time.
    std::optional<std::string> take_notice();
    /// Blocks until there is a Finish, or the agent has to leave without one: at the first word of
    /// it, or at the end of the notice.
    enum class Patience { none, to_the_end };
    Now wait_for_finish(Patience patience);

    /// Stop, interrupt or give up: preparations end early.
    std::stop_token halted() const { return halted_.get_token(); }
    /// The notice of an interruption is over, or give up: even the upload of results ends.
    std::stop_token expired() const { return expired_.get_token(); }
    /// Give up: nothing is worth saying any more.
    std::stop_token gone() const { return gone_.get_token(); }
    /// Readable after each order; the main thread drains it.
    sys::WakeFd& wake() { return wake_; }

private:
    struct State {
        Now now;
        std::map<std::uint64_t, plan::Command> early;
        std::uint64_t next = 1;
        bool noticed = false;  ///< take_notice() gave it away
    };
    void apply(Now& now, const plan::Command& command);

    Partition& partition_;
    Sync<State> state_;
    std::stop_source halted_, expired_, gone_;
    sys::WakeFd wake_;
    TaskGroup tasks_;
};

}  // namespace ty::agent
