// SPDX-License-Identifier: Apache-2.0
// `trainyard-agent network <folder>`: the network of one attempt with several hosts, and the
// coordinator of an elastic one. Started by the local engine, asked by agents through
// <folder>/socket (JobNetwork).
//
// A machine that allows no network namespaces is no reason to end: it stays and tells every agent
// why, so that jobs fail with the reason and not with a timeout.
#pragma once

#include "agent/launcher/coordinator/external.h"
#include "sys/fd.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace ty::agent {

/// <folder>/network.json.
struct NetworkOrders {
    int hosts = 0;  ///< there from the start
    std::optional<ElasticJob> elastic;
    /// Those whose names are known everywhere.
    int named_hosts() const { return elastic ? std::max(hosts, elastic->max_nodes) : hosts; }
};
/// {"hosts": N, "rendezvous": {"run_id", "min_nodes", "max_nodes", "expected_nodes",
/// "max_restarts", "checkpoints", "token"} or null, ...}. Throws invalid naming the member.
NetworkOrders network_orders_from_json(std::string_view text);

/// Why this machine gives jobs no network; empty: it does. Tries it for real: the caller, which
/// must have one thread, is inside afterwards.
std::string why_no_network();

/// Does not return before it is killed, or the coordinator cannot be kept alive (1).
int network_main(const sys::fs::path& folder);

}  // namespace ty::agent
