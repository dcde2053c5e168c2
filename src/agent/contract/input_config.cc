// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/input_config.h"

#include "agent/contract/cluster.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

namespace ty::agent {

std::string hyperparameters_json(const plan::NodePlan& plan) {
    Json document = Json::object();
    for (const auto& [name, value] : plan.hyperparameters) document[name] = value;
    return dump_json(document);
}

std::string input_data_config_json(const plan::NodePlan& plan) {
    Json document = Json::object();
    for (const plan::Channel& channel : plan.channels) {
        Json entry = {
            {"TrainingInputMode", channel.input_mode == plan::InputMode::pipe ? "Pipe" : "File"},
            {"S3DistributionType", channel.distribution == plan::Distribution::sharded_by_key
                                       ? "ShardedByS3Key"
                                       : "FullyReplicated"},
            {"RecordWrapperType",
             channel.record_wrapper.empty() ? "None" : channel.record_wrapper}};
        if (!channel.content_type.empty()) entry["ContentType"] = channel.content_type;
        document[channel.name] = std::move(entry);
    }
    return dump_json(document);
}

std::string resource_config_json(const plan::NodePlan& plan, const std::string& network_interface) {
    Json groups = Json::array();
    for (const plan::InstanceGroup& group : groups_of(plan)) {
        groups.push_back({{"instance_group_name", group.name},
                          {"instance_type", group.instance_type},
                          {"hosts", group.hosts}});
    }
    return dump_json(Json{{"current_host", plan.host},
                          {"current_instance_type", plan.instance_type},
                          {"current_group_name", plan.instance_group},
                          {"hosts", plan.hosts},
                          {"instance_groups", std::move(groups)},
                          {"network_interface_name", network_interface}});
}

void write_ml_tree(const HostPaths& paths, const plan::NodePlan& plan,
                   const std::string& network_interface) {
    make_folders(paths.config());
    make_folders(paths.ml() / "input/data");
    make_folders(paths.model());
    make_folders(paths.output_data());
    make_folders(paths.code());
    make_folders(paths.ml() / "checkpoints");
    for (const plan::Channel& channel : plan.channels) make_folders(paths.data(channel.name));
    sys::write_file(paths.config() / "hyperparameters.json", hyperparameters_json(plan));
    sys::write_file(paths.config() / "inputdataconfig.json", input_data_config_json(plan));
    sys::write_file(paths.config() / "resourceconfig.json",
                    resource_config_json(plan, network_interface));
}

}  // namespace ty::agent
