// SPDX-License-Identifier: Apache-2.0
// What a worker is given: its command line, its environment, and the facts about this node.
#pragma once

#include "agent/launcher/options/options.h"
#include "rendezvous/rendezvous.h"

#include <string>
#include <vector>

namespace ty::agent {

/// "NAME=value" pairs in which a later set() wins.
class Variables {
public:
    static Variables inherited();
    void set(const std::string& name, const std::string& value);
    void set_default(const std::string& name, const std::string& value);
    void remove_if(bool (*unwanted)(std::string_view name));
    const std::string* find(const std::string& name) const;
    std::vector<std::string> list() const;

private:
    std::map<std::string, std::string> values_;
};

/// The command of one local rank: interpreter, -u, script; or the program itself with --no-python.
/// ${local_rank} in arguments is replaced, as torchrun does.
std::vector<std::string> worker_command(const LaunchOptions& options, int local_rank);
/// What torchrun calls the entry point in its messages.
std::string entrypoint_name(const LaunchOptions& options);

struct WorkerPlace {
    int local_rank = 0;
    std::string error_file;
    std::string request_file;  ///< TRAINYARD_CHECKPOINT_REQUEST
};
/// Everything of torchrun 2.13 (contract: docs/reference/run.md) plus TRAINYARD_GENERATION and
/// TRAINYARD_CHECKPOINT_*. Throws invalid when --virtual-local-rank has fewer GPUs than workers.
std::vector<std::string> worker_environment(const LaunchOptions& options, const Variables& base,
                                            const rendezvous::Assignment& assignment,
                                            const WorkerPlace& place);

/// Address of this machine as the others see it: --local-addr resolved, else the source address of
/// a packet to `endpoint_host`. Loopback stays loopback.
std::string own_address(const LaunchOptions& options, const std::string& endpoint_host);

rendezvous::Policy policy_of(const LaunchOptions& options);
rendezvous::NodeFacts facts_of(const LaunchOptions& options, const std::string& endpoint_host);

}  // namespace ty::agent
