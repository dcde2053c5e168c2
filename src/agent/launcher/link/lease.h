// SPDX-License-Identifier: Apache-2.0
// What a link remembers between connections: how long this node may still run its workers, and what
// the coordinator may not have heard. Pure bookkeeping of the launcher's one thread.
#pragma once

#include "base/time.h"
#include "rendezvous/rendezvous.h"

#include <deque>
#include <optional>
#include <vector>

namespace ty::agent {

/// The lease counts from the moment the last answered message was *sent*: the coordinator, who
/// counts from when it arrived, never ends it earlier than we do.
class Lease {
public:
    void set_times(milliseconds lease, milliseconds fence) {
        lease_ = lease;
        fence_ = fence;
    }
    milliseconds length() const { return lease_; }
    milliseconds beat_interval() const { return lease_ / 5; }

    /// A Hello or beat sent at `now`; its sequence number.
    std::int64_t sent(Monotonic now);
    /// The Hello was answered: everything sent on an older connection no longer counts.
    void welcomed(Monotonic hello_sent);
    void answered(std::int64_t sequence);

    bool is_held() const { return answered_.has_value(); }
    /// Meaningless before is_held().
    Monotonic ends() const { return *answered_ + fence_; }
    /// Late: whoever hosts the coordinator had better start another one, while there is time. Only
    /// an unanswered beat counts: after a freeze of our own there is none, and nobody to blame.
    bool is_uneasy(Monotonic now) const { return oldest_unanswered(now) > lease_ * 3 / 5; }
    /// A beat unanswered for a whole lease: the connection is no good any more.
    bool is_silent(Monotonic now) const { return oldest_unanswered(now) > lease_; }
    /// So long without an answer that somebody else may coordinate, if most agree.
    bool is_lost(Monotonic now) const {
        return answered_ && now - *answered_ > fence_ + 2 * lease_;
    }

private:
    Monotonic::duration oldest_unanswered(Monotonic now) const {
        return beats_.empty() ? Monotonic::duration(0) : now - beats_.front().second;
    }
    milliseconds lease_{1250}, fence_{1500};
    std::int64_t sequence_ = 0;
    std::deque<std::pair<std::int64_t, Monotonic>> beats_;
    std::optional<Monotonic> answered_;
};

/// The newest message of each kind, said again after every reconnect until the next generation has
/// started: the coordinator ignores what it knows already.
class Unconfirmed {
public:
    void add(const rendezvous::Up& message, Monotonic now);
    void started(std::int64_t generation);
    /// In the order they were added; a deadline has come closer meanwhile.
    std::vector<rendezvous::Up> all(Monotonic now) const;

private:
    struct Said {
        rendezvous::Up message;
        Monotonic when;
    };
    std::vector<Said> said_;
};

}  // namespace ty::agent
