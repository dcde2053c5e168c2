// SPDX-License-Identifier: Apache-2.0
// A node of an elastic job: the training program runs under our own launcher inside the box, which
// meets the other nodes' at the job's rendezvous. Here is what the program's run is given for that,
// and what the launcher's words lead to.
#pragma once

#include "agent/checkpoint_keeper.h"
#include "agent/elastic_hook.h"
#include "agent/network/network.h"
#include "agent/node_context.h"
#include "agent/runner.h"

#include <string>

namespace ty::agent {

/// Folder of what the agent shows every program besides /opt/ml: progress file and launcher socket.
struct NodeFolder {
    sys::fs::path on_host;
    std::string program_path;
};

class ElasticNode {
public:
    /// `checkpoints` may be null. Throws unsupported without a network to meet in.
    ElasticNode(const NodeContext& node, const NodeFolder& folder, const JobNetwork* network,
                CheckpointKeeper* checkpoints);

    /// The launcher as trainyard-agent and torchrun at the front of PATH, its variables, and the
    /// way to make it leave.
    void equip(RunSpec& run);
    /// The box is gone.
    void finish() { hook_.finish(); }

private:
    const NodeContext& node_;
    const NodeFolder& folder_;
    const JobNetwork& network_;
    CheckpointKeeper* checkpoints_;
    ElasticHook hook_;
};

}  // namespace ty::agent
