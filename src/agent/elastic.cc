// SPDX-License-Identifier: Apache-2.0
#include "agent/elastic.h"

#include "agent/own_program.h"
#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr const char* kSocket = "launcher.sock";
constexpr milliseconds kLongestReserve{30'000};

const JobNetwork& need(const JobNetwork* network) {
    if (network == nullptr || network->rendezvous().empty()) {
        throw_error(Code::unsupported, "NoRendezvous",
                    "an elastic job needs the network of its attempt, and this node was started "
                    "without one");
    }
    return *network;
}

/// "algo-3" is the third slot, number 2.
std::string slot_of(const std::string& host) {
    const auto number = parse_int(host.substr(host.rfind('-') + 1));
    return std::to_string(number.value_or(1) - 1);
}

}  // namespace

ElasticNode::ElasticNode(const NodeContext& node, const NodeFolder& folder,
                         const JobNetwork* network, CheckpointKeeper* checkpoints)
    : node_(node),
      folder_(folder),
      network_(need(network)),
      checkpoints_(checkpoints),
      hook_(folder.on_host, kSocket,
            {.on_stopped =
                 [this](std::int64_t generation) {
                     if (checkpoints_ != nullptr) checkpoints_->settle(generation);
                 },
             .on_starting =
                 [this](std::int64_t generation) {
                     if (checkpoints_ != nullptr) checkpoints_->refresh(generation);
                 },
             .on_changed =
                 [this](const plan::GenerationChanged& changed) { node_.uplink.emit(changed); },
             .say = [this](const std::string& text) { node_.say(text); }}) {}

void ElasticNode::equip(RunSpec& run) {
    show_own_program(run, folder_.on_host, {"trainyard-agent", "torchrun"});
    const std::string* path = run.variables.find("PATH");
    run.variables.set("PATH", std::string(kOwnBin) + (path != nullptr ? ":" + *path : ""));
    const plan::Elastic& elastic = *node_.plan.elastic;
    run.variables.set("TRAINYARD_ELASTIC_NODES",
                      format("{}:{}", elastic.min_nodes, elastic.max_nodes));
    run.variables.set("TRAINYARD_RDZV_ENDPOINT", network_.rendezvous());
    run.variables.set("TRAINYARD_RDZV_ID", node_.plan.attempt.str());
    run.variables.set("TRAINYARD_RDZV_TOKEN", elastic.token);
    run.variables.set("TRAINYARD_NODE_SLOT", slot_of(node_.plan.host));
    run.variables.set("TRAINYARD_NODE_SOCKET", folder_.program_path + "/" + kSocket);
    run.variables.set("TRAINYARD_MAX_RESTARTS", std::to_string(elastic.max_restarts));
    run.leave = [this](milliseconds within, const std::string& why) {
        // What is left when the workers are gone is for the upload of what they wrote last.
        const milliseconds reserve = std::min(within / 4, kLongestReserve);
        return hook_.leave(checkpoints_ != nullptr ? within - reserve : within, why);
    };
}

}  // namespace ty::agent
