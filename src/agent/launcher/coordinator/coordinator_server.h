// SPDX-License-Identifier: Apache-2.0
// The coordinator's connections: accepts, checks, bounds and drops them, so that the state machine
// only hears messages of nodes that know the token. One thread, epoll.
//
// Strangers cost little: at most kStrangers at a time, 4 KiB and three seconds each, and a flood
// from one address displaces its own connections first. What is refused is logged once a minute by
// kind.
#pragma once

#include "agent/launcher/link/frame_socket.h"
#include "agent/launcher/link/signpost.h"
#include "rendezvous/rendezvous.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ty::agent {

/// Counts by kind; says the first at once and the rest once a minute.
class RefusalLog {
public:
    void count(const std::string& kind, const std::string& detail, Monotonic now);

private:
    struct Kind {
        Monotonic said;
        long long unsaid = 0;
    };
    std::map<std::string, Kind> kinds_;
};

class CoordinatorServer {
public:
    struct Events {
        std::function<void(const std::string& node, const rendezvous::Up& message)> on_message;
        /// closed: by the node's kernel, the agent is gone. silent: the network gave it up, or we
        /// did.
        std::function<void(const std::string& node, rendezvous::Lost how)> on_lost;
        /// Another coordinator of this job says how far it is; the answer is how far we are, absent
        /// when we are behind.
        std::function<std::optional<std::int64_t>(const ClaimFrame& claim)> on_claim;
    };
    CoordinatorServer(std::vector<sys::Fd> listeners, JobSecret secret, std::string host, Ids& ids,
                      const Clock& clock, Events events);
    ~CoordinatorServer();

    /// receive() also returns when this is readable; the caller drains it.
    void watch(int fd);
    /// Take in everything that has arrived; wait for something until `by`.
    void receive(Deadline by);
    /// Queue for one node; nothing when it is not connected.
    void send(const std::string& node, std::string_view frame);
    /// Write what is queued; drop nodes that do not read.
    void flush();
    /// Something of a node is still unwritten.
    bool has_pending() const { return !blocked_.empty(); }
    Deadline next_deadline() const;

private:
    struct Peer {
        FrameSocket socket;
        std::string source;  ///< address without port
        std::string nonce;
        std::string node;  ///< empty: a stranger
        bool said_hello = false, leaving = false, dirty = false, wants_write = false;
        Monotonic accepted;
    };
    using PeerId = std::uint64_t;

    bool collect(int timeout);
    void accept_some(int listener);
    void adopt(sys::Fd fd, std::string source);
    bool make_room();
    void read_from(PeerId id);
    void serve_frames(PeerId id, Peer& peer);
    bool take_frame(PeerId id, Peer& peer, std::string_view frame);
    void welcome_known(PeerId id, Peer& peer, std::string_view frame);
    void mark_dirty(PeerId id, Peer& peer);
    void write_to(PeerId id);
    void drop(PeerId id);
    void lose(PeerId id, rendezvous::Lost how);
    void refuse(PeerId id, const std::string& kind, const std::string& detail);
    void expire_strangers();
    void drop_stuck();
    void pause_accepting(milliseconds time);
    void watch_listeners(bool on);

    // Immutable.
    std::vector<sys::Fd> listeners_;
    JobSecret secret_;
    std::string host_;
    Ids& ids_;
    const Clock& clock_;
    Events events_;
    sys::Fd epoll_;

    // The one thread.
    Monotonic now_;
    PeerId next_id_ = 0;
    std::unordered_map<PeerId, std::unique_ptr<Peer>> peers_;
    std::unordered_map<std::string, PeerId> nodes_;
    std::deque<PeerId> strangers_;          ///< by age; may name peers that are gone or known now
    std::map<std::string, int> by_source_;  ///< strangers of each address
    std::size_t stranger_count_ = 0;
    std::vector<PeerId> dirty_;
    std::set<PeerId> blocked_;               ///< with output the kernel did not take
    std::optional<Monotonic> paused_until_;  ///< no accept() before
    RefusalLog refusals_;
};

}  // namespace ty::agent
