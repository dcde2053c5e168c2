// SPDX-License-Identifier: Apache-2.0
// The coordinator as the child of the agent that hosts it: started, restarted when it dies, its
// notes and complaints passed on. The listening sockets stay open here, so that while it restarts
// connections wait in the kernel's queue; a refused connection means that this agent is gone.
#pragma once

#include "agent/launcher/coordinator/coordinator_log.h"
#include "agent/launcher/coordinator/coordinator_start.h"
#include "agent/launcher/link/link.h"

#include <functional>
#include <optional>
#include <vector>

namespace ty::agent {

class CoordinatorHost {
public:
    struct Events {
        std::function<void(const rendezvous::Effects::Note&)> on_note;
        /// It dies again and again; the text is its last complaint.
        std::function<void(const std::string& why)> on_hopeless;
    };
    /// `listeners`: one or two, listening; borrowed, they must outlive this.
    CoordinatorHost(sys::Poller& poller, std::string binary, CoordinatorStart start,
                    std::vector<int> listeners, Events events);
    ~CoordinatorHost();  ///< kills it

    void launch();
    /// It hangs: kill it; on_end() starts the next one.
    void replace();
    /// It has answered us: the restarts so far were for other reasons than itself.
    void worked() { idle_deaths_ = 0; }
    /// Until it has ended by itself (the job is over and all were told) or `by`.
    void wait_for_end(Deadline by);
    /// 0 while none runs.
    pid_t pid() const { return child_ ? child_->pid() : 0; }

private:
    void on_end();
    void on_output();
    void take_line(std::string_view line);

    SystemClock clock_;
    sys::Poller& poller_;
    std::string binary_;
    CoordinatorStart start_;
    std::vector<int> listeners_;
    Events events_;
    MemorySlots memory_;
    std::optional<sys::Child> child_;
    int watched_ = -1;
    sys::Pipe pipe_;
    std::string partial_, last_complaint_;
    Monotonic born_;
    int idle_deaths_ = 0;  ///< in a row, without an answer in between and not after a good while
};

}  // namespace ty::agent
