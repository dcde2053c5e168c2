// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/variables.h"

#include "agent/contract/cluster.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::agent {

namespace {

constexpr std::string_view kSystemPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Framework settings the toolkit consumes itself; the rest show up in SM_FRAMEWORK_PARAMS.
constexpr std::array<std::string_view, 10> kConsumed = {"_tuning_objective_metric",
                                                        "sagemaker_container_log_level",
                                                        "sagemaker_default_invocations_accept",
                                                        "sagemaker_enable_cloudwatch_metrics",
                                                        "sagemaker_job_name",
                                                        "sagemaker_program",
                                                        "sagemaker_region",
                                                        "sagemaker_s3_output",
                                                        "sagemaker_submit_directory",
                                                        "trainyard_elastic"};

/// The toolkit's to_env_vars: text raw, None empty, everything else compact JSON.
std::string spell(const PythonValue& value) {
    switch (value.kind()) {
        case PythonValue::Kind::none:
            return {};
        case PythonValue::Kind::text:
            return value.text();
        case PythonValue::Kind::boolean:
        case PythonValue::Kind::integer:
        case PythonValue::Kind::real:
        case PythonValue::Kind::list:
        case PythonValue::Kind::dict:
            return value.json();
    }
    return {};
}

std::string module_name(const std::string& program) {
    return program.ends_with(".py") ? program.substr(0, program.size() - 3) : program;
}

PythonValue instance_group(const plan::InstanceGroup& group) {
    return PythonValue::of_dict({{"instance_group_name", PythonValue::of_text(group.name)},
                                 {"instance_type", PythonValue::of_text(group.instance_type)},
                                 {"hosts", PythonValue::of_texts(group.hosts)}});
}

PythonValue group_list(const plan::NodePlan& plan) {
    std::vector<PythonValue> groups;
    for (const plan::InstanceGroup& group : groups_of(plan))
        groups.push_back(instance_group(group));
    return PythonValue::of_list(std::move(groups));
}

PythonValue group_dict(const plan::NodePlan& plan) {
    PythonValue groups = PythonValue::of_dict({});
    for (const plan::InstanceGroup& group : groups_of(plan))
        groups.set(group.name, instance_group(group));
    return groups;
}

PythonValue group_names(const plan::NodePlan& plan) {
    std::vector<std::string> names;
    for (const plan::InstanceGroup& group : groups_of(plan)) names.push_back(group.name);
    return PythonValue::of_texts(names);
}

PythonValue input_data_config(const plan::NodePlan& plan) {
    PythonValue result = PythonValue::of_dict({});
    for (const plan::Channel& channel : plan.channels) {
        PythonValue entry = PythonValue::of_dict({});
        entry.set(
            "TrainingInputMode",
            PythonValue::of_text(channel.input_mode == plan::InputMode::pipe ? "Pipe" : "File"));
        entry.set("S3DistributionType",
                  PythonValue::of_text(channel.distribution == plan::Distribution::sharded_by_key
                                           ? "ShardedByS3Key"
                                           : "FullyReplicated"));
        entry.set(
            "RecordWrapperType",
            PythonValue::of_text(channel.record_wrapper.empty() ? "None" : channel.record_wrapper));
        if (!channel.content_type.empty()) {
            entry.set("ContentType", PythonValue::of_text(channel.content_type));
        }
        result.set(channel.name, std::move(entry));
    }
    return result;
}

PythonValue resource_config(const plan::NodePlan& plan, const NodeFacts& facts) {
    return PythonValue::of_dict(
        {{"current_host", PythonValue::of_text(plan.host)},
         {"current_instance_type", PythonValue::of_text(plan.instance_type)},
         {"current_group_name", PythonValue::of_text(plan.instance_group)},
         {"hosts", PythonValue::of_texts(plan.hosts)},
         {"instance_groups", group_list(plan)},
         {"network_interface_name", PythonValue::of_text(facts.network_interface)}});
}

bool is_hetero(const plan::NodePlan& plan) {
    return groups_of(plan).size() > 1;
}

/// What SM_TRAINING_ENV describes; the single variables repeat most of it.
PythonValue training_env(const plan::NodePlan& plan, const NodeFacts& facts,
                         const Hyperparameters& hyperparameters, const ScriptFacts& script,
                         const PythonValue& framework, const std::string& framework_module) {
    const auto text = [](const std::string& value) { return PythonValue::of_text(value); };
    PythonValue channels = PythonValue::of_dict({});
    for (const plan::Channel& channel : plan.channels)
        channels.set(channel.name, text(facts.paths.data(channel.name)));
    const Participants participants = participants_of(plan, hyperparameters);
    return PythonValue::of_dict({
        {"additional_framework_parameters", framework},
        {"channel_input_dirs", channels},
        {"current_host", text(plan.host)},
        {"current_instance_group", text(plan.instance_group)},
        {"current_instance_group_hosts", PythonValue::of_texts(group_hosts(plan))},
        {"current_instance_type", text(plan.instance_type)},
        {"distribution_hosts", PythonValue::of_texts(participants.hosts)},
        {"distribution_instance_groups", PythonValue::of_texts(participants.groups)},
        {"framework_module", framework_module.empty() ? PythonValue() : text(framework_module)},
        {"hosts", PythonValue::of_texts(plan.hosts)},
        {"hyperparameters", PythonValue::of_dict(hyperparameters.user)},
        {"input_config_dir", text(facts.paths.config())},
        {"input_data_config", input_data_config(plan)},
        {"input_dir", text(facts.paths.input())},
        {"instance_groups", group_names(plan)},
        {"instance_groups_dict", group_dict(plan)},
        {"is_hetero", PythonValue::of_bool(is_hetero(plan))},
        {"is_master", PythonValue::of_bool(participants.master == plan.host)},
        {"job_name", text(plan.job_name)},
        {"log_level", PythonValue::of_int(20)},
        {"master_hostname", text(participants.master)},
        {"model_dir", text(facts.paths.model())},
        {"module_dir", text(script.submit)},
        {"module_name", text(module_name(script.program))},
        {"network_interface_name", text(facts.network_interface)},
        {"num_cpus", PythonValue::of_int(facts.cpus)},
        {"num_gpus", PythonValue::of_int(plan.gpus)},
        {"num_neurons", PythonValue::of_int(0)},
        {"output_data_dir", text(facts.paths.output_data())},
        {"output_dir", text(facts.paths.output())},
        {"output_intermediate_dir", text(facts.paths.intermediate())},
        {"resource_config", resource_config(plan, facts)},
        {"user_entry_point", text(script.program)},
    });
}

bool is_passable(const std::string& name, const std::string& value) {
    return !name.empty() && name.find('=') == std::string::npos &&
           name.find('\0') == std::string::npos && value.find('\0') == std::string::npos;
}

}  // namespace

void Variables::set(std::string name, std::string value) {
    const auto found = std::ranges::find(pairs_, name, &std::pair<std::string, std::string>::first);
    if (found != pairs_.end()) {
        found->second = std::move(value);
    } else {
        pairs_.emplace_back(std::move(name), std::move(value));
    }
}

void Variables::set_default(std::string name, std::string value) {
    if (find(name) == nullptr) set(std::move(name), std::move(value));
}

void Variables::merge(const plan::Pairs& pairs) {
    for (const auto& [name, value] : pairs) set(name, value);
}

const std::string* Variables::find(std::string_view name) const {
    const auto found = std::ranges::find(pairs_, name, &std::pair<std::string, std::string>::first);
    return found == pairs_.end() ? nullptr : &found->second;
}

std::vector<std::string> Variables::to_environ() const {
    std::vector<std::string> result;
    result.reserve(pairs_.size());
    for (const auto& [name, value] : pairs_) {
        if (is_passable(name, value)) result.push_back(name + "=" + value);
    }
    return result;
}

Variables container_variables(const plan::NodePlan& plan, const NodeFacts& facts,
                              const std::vector<std::string>& bin) {
    Variables result;
    result.set("PATH", std::string(kSystemPath));
    result.set("HOME", facts.home);
    result.set("HOSTNAME", plan.host);
    result.set("LANG", facts.language.empty() ? "C.UTF-8" : facts.language);
    if (!facts.time_zone.empty()) result.set("TZ", facts.time_zone);
    result.merge(plan.environment.variables);
    result.merge(plan.variables);
    std::vector<std::string> path = bin;
    path.push_back(*result.find("PATH"));
    result.set("PATH", join(path, ":"));
    result.set_default("PYTHONUNBUFFERED", "1");
    result.set("TRAINING_JOB_NAME", plan.job_name);
    result.set("TRAINING_JOB_ARN", plan.job_arn);
    result.set("AWS_REGION", plan.region);
    result.set("AWS_DEFAULT_REGION", plan.region);
    if (!facts.gpus.empty()) {
        std::vector<std::string> indexes;
        for (const int index : facts.gpus) indexes.push_back(std::to_string(index));
        result.set("CUDA_VISIBLE_DEVICES", join(indexes, ","));
        result.set("NVIDIA_VISIBLE_DEVICES", join(indexes, ","));
    }
    result.set("AWS_ENDPOINT_URL", plan.endpoint);
    result.set("S3_ENDPOINT_URL", plan.endpoint);
    result.set("AWS_ACCESS_KEY_ID", plan.credentials.access_key);
    result.set("AWS_SECRET_ACCESS_KEY", plan.credentials.secret_key);
    if (!plan.credentials.session_token.empty()) {
        result.set("AWS_SESSION_TOKEN", plan.credentials.session_token);
    }
    if (facts.paths.base != "/opt/ml") result.set("SAGEMAKER_BASE_DIR", facts.paths.base);
    return result;
}

plan::Pairs toolkit_variables(const plan::NodePlan& plan, const NodeFacts& facts,
                              const Hyperparameters& hyperparameters, const ScriptFacts& script) {
    PythonMembers extra;
    for (const auto& member : hyperparameters.framework) {
        if (std::ranges::find(kConsumed, member.first) == kConsumed.end()) extra.push_back(member);
    }
    const PythonValue framework = PythonValue::of_dict(extra);
    std::string framework_module;
    for (const plan::Pairs& pairs : {plan.environment.variables, plan.variables}) {
        for (const auto& [name, value] : pairs) {
            if (name == "SAGEMAKER_TRAINING_MODULE") framework_module = value;
        }
    }
    std::vector<std::string> channels;
    for (const plan::Channel& channel : plan.channels) channels.push_back(channel.name);
    std::ranges::sort(channels);
    const PythonValue hosts = PythonValue::of_texts(plan.hosts);
    const Participants participants = participants_of(plan, hyperparameters);
    const std::string log_level =
        hyperparameters.framework_text("sagemaker_container_log_level").value_or("20");

    plan::Pairs result = {
        {"SM_HOSTS", hosts.json()},
        {"SM_CURRENT_HOST", plan.host},
        {"SM_CURRENT_INSTANCE_TYPE", plan.instance_type},
        {"SM_CURRENT_INSTANCE_GROUP", plan.instance_group},
        {"SM_CURRENT_INSTANCE_GROUP_HOSTS", PythonValue::of_texts(group_hosts(plan)).json()},
        {"SM_INSTANCE_GROUPS", group_names(plan).json()},
        {"SM_INSTANCE_GROUPS_DICT", group_dict(plan).json()},
        {"SM_DISTRIBUTION_INSTANCE_GROUPS", PythonValue::of_texts(participants.groups).json()},
        {"SM_IS_HETERO", is_hetero(plan) ? "true" : "false"},
        {"SM_NETWORK_INTERFACE_NAME", facts.network_interface},
        {"SM_NUM_CPUS", std::to_string(facts.cpus)},
        {"SM_NUM_GPUS", std::to_string(plan.gpus)},
        {"SM_NUM_NEURONS", "0"},
        {"SM_MODEL_DIR", facts.paths.model()},
        {"SM_INPUT_DIR", facts.paths.input()},
        {"SM_INPUT_CONFIG_DIR", facts.paths.config()},
        {"SM_OUTPUT_DIR", facts.paths.output()},
        {"SM_OUTPUT_DATA_DIR", facts.paths.output_data()},
        {"SM_OUTPUT_INTERMEDIATE_DIR", facts.paths.intermediate()},
        {"SM_MODULE_DIR", script.submit},
        {"SM_HPS", PythonValue::of_dict(hyperparameters.user).json()},
        {"SM_FRAMEWORK_PARAMS", framework.json()},
        {"SM_RESOURCE_CONFIG", resource_config(plan, facts).json()},
        {"SM_INPUT_DATA_CONFIG", input_data_config(plan).json()},
        {"SM_TRAINING_ENV",
         training_env(plan, facts, hyperparameters, script, framework, framework_module).json()},
        {"SM_USER_ARGS", PythonValue::of_texts(script.arguments).json()},
        {"SM_LOG_LEVEL", log_level},
        {"SM_USER_ENTRY_POINT", script.program},
        {"SM_MODULE_NAME", module_name(script.program)},
        {"SM_FRAMEWORK_MODULE", framework_module},
        {"SM_CHANNELS", PythonValue::of_texts(channels).json()},
        {"SAGEMAKER_JOB_NAME", plan.job_name},
        {"SAGEMAKER_REGION", plan.region},
        {"CURRENT_HOST", plan.host},
        {"MASTER_ADDR", participants.master},
        {"MASTER_PORT", "7777"},
        {"NCCL_SOCKET_IFNAME", facts.network_interface},
        {"NCCL_IB_DISABLE", "1"},
        {"NCCL_DEBUG", "WARN"},
    };
    for (const std::string& channel : channels) {
        result.emplace_back("SM_CHANNEL_" + to_upper(channel), facts.paths.data(channel));
    }
    for (const auto& [name, value] : hyperparameters.user) {
        result.emplace_back("SM_HP_" + to_upper(name), spell(value));
    }
    return result;
}

}  // namespace ty::agent
