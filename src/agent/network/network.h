// SPDX-License-Identifier: Apache-2.0
// One host's place in the network of its attempt: namespaces to run programs in, the addresses of
// all hosts, and a way from there to the daemon.
//
// The network itself belongs to `trainyard-agent network` (network_main.h), one process for each
// attempt. The agent stays in the machine's network; what it runs joins namespaces(). Should that
// process die, the network stays as it is while an agent holds a JobNetwork.
#pragma once

#include "agent/sandbox/sandbox.h"
#include "base/time.h"
#include "sys/fd.h"

#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace ty::agent {

class Forwarder;

class JobNetwork {
public:
    /// Take the place of `host` ("algo-2") through the socket of the attempt's network process;
    /// waits for that process to come up. Whoever had the place is cut off: a replacement finds it
    /// empty. `daemon` ("127.0.0.1:4545", "[::1]:4545", any address literal) is reachable from
    /// inside under that very address, as long as this object lives.
    /// Throws denied or unsupported (no network namespaces on this machine, with the reason),
    /// unavailable (the process is gone), invalid (host or address), timed_out, cancelled.
    static std::unique_ptr<JobNetwork> join(const sys::fs::path& socket, const std::string& host,
                                            const std::string& daemon, Deadline by,
                                            const std::stop_token& stop = {});
    JobNetwork(const JobNetwork&) = delete;
    JobNetwork& operator=(const JobNetwork&) = delete;
    ~JobNetwork();

    /// Host and address of all that may ever take part, algo-1 first.
    const std::vector<std::pair<std::string, std::string>>& addresses() const { return addresses_; }
    /// Name of the interface inside.
    const std::string& interface() const { return interface_; }
    /// "10.84.255.254:29400": where an elastic job's coordinator listens; empty for the others.
    const std::string& rendezvous() const { return rendezvous_; }

    /// False cuts the host off: from the other hosts, and programs from the daemon. Connections
    /// stay open and silent. Throws unavailable, timed_out.
    void set_link(bool up);

    /// For Box: what its programs join. Valid as long as this object lives.
    NamespaceFds namespaces() const { return {user_.get(), network_.get()}; }

private:
    JobNetwork();

    std::vector<std::pair<std::string, std::string>> addresses_;
    std::string interface_, rendezvous_;
    sys::Fd process_;                  ///< connection to the network process
    sys::Fd user_, network_, switch_;  ///< the last keeps the other hosts reachable
    std::unique_ptr<Forwarder> forwarder_;
};

}  // namespace ty::agent
