// SPDX-License-Identifier: Apache-2.0
// Events up, commands down. An event is in the job's folder before anything is done on the strength
// of it, and is repeated until the daemon has it; a daemon that is away is waited for without end.
// Two threads: one sends events, one holds a call open for commands.
#pragma once

#include "agent/control_plane.h"
#include "base/sync.h"
#include "plan/plan.h"

#include <functional>
#include <string>
#include <vector>

namespace ty::agent {

/// Every event of this attempt, one JSON document a line. Read back after a crash.
class EventSpool {
public:
    /// Loads what an earlier agent left; a torn last line is cut off.
    explicit EventSpool(const sys::fs::path& path);
    /// Keep one event; Finished is on the disk when this returns. Throws exhausted (disk full).
    void append(const plan::Event& event);
    const std::vector<plan::Event>& loaded() const { return loaded_; }
    /// An earlier agent's Finished, if it got that far.
    bool has_finished() const;

private:
    sys::fs::path path_;
    sys::Fd file_;
    std::vector<plan::Event> loaded_;
};

class Uplink {
public:
    struct Callbacks {
        /// With its number. Either thread, so that one may overtake another.
        std::function<void(std::uint64_t, const plan::Command&)> on_command;
        std::function<void()> on_gone;  ///< either thread
    };
    Uplink(const Start& start, const sys::fs::path& events, const Clock& clock,
           Callbacks callbacks);
    ~Uplink();
    Uplink(const Uplink&) = delete;
    Uplink& operator=(const Uplink&) = delete;

    /// Keep the event and have it sent. Any thread; returns before it arrived.
    void emit(plan::Payload payload);
    /// Wait until the daemon has every event. False on deadline, stop, or when the attempt is gone.
    bool flush(Deadline by, const std::stop_token& stop);
    /// An earlier agent ran in this folder: what it left behind.
    enum class Earlier { none, unfinished, finished };
    Earlier earlier() const { return earlier_; }

private:
    struct State {
        EventSpool spool;
        std::vector<plan::Event> unsent;
        std::uint64_t last_seq = 0;
        std::uint64_t acknowledged = 0;
        std::uint64_t commands_seen = 0;
        bool gone = false;
        explicit State(const sys::fs::path& path) : spool(path) {}
    };

    void event_loop(const std::stop_token& stop);
    void command_loop(const std::stop_token& stop);
    enum class Next { go_on, slow_down, end };
    Next exchange(ControlPlane& daemon, const plan::SyncRequest& request,
                  const std::stop_token& stop);
    Next take(const ControlPlane::Reply& reply, std::uint64_t sent);

    const Start start_;
    const Clock& clock_;
    const Callbacks callbacks_;
    Sync<State> state_;
    Earlier earlier_ = Earlier::none;
    TaskGroup tasks_;
};

}  // namespace ty::agent
