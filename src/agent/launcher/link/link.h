// SPDX-License-Identifier: Apache-2.0
// How a node talks to the job's coordinator: in the same process (one node), or over TCP with
// authentication, leases, reconnection and succession.
//
// Used by the launcher's one thread; callbacks come from its poller.
#pragma once

#include "base/time.h"
#include "rendezvous/rendezvous.h"
#include "sys/sys.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ty::agent {

/// Why there will be no coordinator for us.
enum class Gone {
    unreachable,
    refused,  ///< another token, another job, another size: trying again changes nothing
};

struct LinkCallbacks {
    std::function<void(const rendezvous::Down&)> on_message;
    /// Our lease is over (Policy::fence since the last answered beat was sent): the workers must
    /// die now. The link goes on trying to reconnect.
    std::function<void(const std::string& why)> on_fenced;
    /// The coordinator has answered a beat that was sent after the fence: what it says from now on
    /// it says knowing that nothing runs here.
    std::function<void()> on_fence_lifted;
    /// There is no coordinator any more and none can be reached within Policy::join_timeout, or it
    /// refused us for good.
    std::function<void(Gone how, const std::string& why)> on_gone;
    /// A line for --events and the log: {what, fields}.
    std::function<void(const rendezvous::Effects::Note&)> on_note;
    /// What a Hello has to say at this moment (running generation, leased port, warm).
    std::function<rendezvous::up::Hello()> make_hello;
};

class Link {
public:
    virtual ~Link() = default;
    /// Hello goes out by itself, now and after every reconnect.
    virtual void open() = 0;
    virtual void send(const rendezvous::Up& message) = 0;
    /// Send Bye, flush briefly, close. When this process hosts the coordinator of other nodes, wait
    /// (at most `patience`) until they have been told or succeeded by another.
    virtual void close(milliseconds patience) = 0;
};

/// The state machine in this very process; one node, no socket.
std::unique_ptr<Link> make_local_link(sys::Poller& poller, rendezvous::Policy policy,
                                      LinkCallbacks callbacks);

struct RemoteOptions {
    /// First is the job's; further ones (comma-separated on the command line) are tried in turn.
    std::vector<std::pair<std::string, std::uint16_t>> endpoints;
    /// The coordinator belongs to no node: nobody hosts or succeeds it, and it is waited for
    /// without end.
    bool external = false;
    bool may_host = true;  ///< c10d: bind the endpoint if it is ours; static: only node rank 0
    std::string token;     ///< shared secret of the job
    rendezvous::Policy policy;
    rendezvous::NodeFacts facts;
    sys::fs::path state_dir;   ///< durable log of a coordinator started here; private to the user
    std::string agent_binary;  ///< /proc/self/exe
};
/// Hosts the coordinator as a child process (`coordinate`) if the endpoint is on this machine and
/// free, restarts it when it dies (the listening socket stays open here, so that connections wait
/// instead of failing), and becomes the successor when its turn comes.
std::unique_ptr<Link> make_remote_link(sys::Poller& poller, RemoteOptions options,
                                       LinkCallbacks callbacks);

/// Body of the hidden `coordinate` subcommand; reads its start document from descriptor 3, listens
/// on descriptor 4. Returns the exit code.
int coordinator_main();

}  // namespace ty::agent
