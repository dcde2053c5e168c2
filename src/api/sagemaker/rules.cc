// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/rules.h"

#include "api/sagemaker/wishes.h"
#include "base/format.h"

#include <algorithm>
#include <set>
#include <string>

namespace ty::api::sagemaker {

namespace {

Problem missing(const std::string& path) {
    return {path,
            fmt::format("Value null at '{}' failed to satisfy constraint: Member must not be null",
                        path)};
}

bool has_groups(const shapes::ResourceConfig& resources) {
    return resources.instance_groups && !resources.instance_groups->empty();
}

void check_algorithm(const shapes::AlgorithmSpecification& algorithm,
                     std::vector<Problem>& problems) {
    const bool image = algorithm.training_image && !algorithm.training_image->empty();
    const bool name = algorithm.algorithm_name && !algorithm.algorithm_name->empty();
    if (image == name)
        problems.push_back({"algorithmSpecification",
                            image ? "You can't specify both TrainingImage and AlgorithmName in "
                                    "AlgorithmSpecification; give one of them"
                                  : "AlgorithmSpecification needs a TrainingImage"});
    std::set<std::string> names;
    if (algorithm.metric_definitions) {
        for (const auto& metric : *algorithm.metric_definitions) {
            if (!names.insert(*metric.name).second)
                problems.push_back({"algorithmSpecification.metricDefinitions",
                                    fmt::format("The metric \"{}\" is defined twice; names must be "
                                                "unique",
                                                *metric.name)});
        }
    }
}

void check_channels(const std::vector<shapes::Channel>& channels, std::vector<Problem>& problems) {
    std::set<std::string> names;
    for (const shapes::Channel& channel : channels) {
        const std::string& name = *channel.channel_name;
        if (!names.insert(name).second)
            problems.push_back(
                {"inputDataConfig",
                 fmt::format("The channel name \"{}\" is used twice; channel names must "
                             "be unique",
                             name)});
        const shapes::DataSource& source = *channel.data_source;
        const int sources = int{source.s3_data_source.has_value()} +
                            int{source.file_system_data_source.has_value()} +
                            int{source.dataset_source.has_value()};
        if (sources != 1)
            problems.push_back(
                {"inputDataConfig",
                 fmt::format("The channel \"{}\" must have exactly one of S3DataSource "
                             "and FileSystemDataSource, not {}",
                             name, sources)});
        if (name == "." || name == "..")
            problems.push_back(
                {"inputDataConfig", fmt::format("\"{}\" cannot be the name of a channel", name)});
    }
}

/// Names, numbers and who may use them; nothing when the request has no groups.
void check_groups(const shapes::CreateTrainingJobRequest& request, std::vector<Problem>& problems) {
    const shapes::ResourceConfig& resources = *request.resource_config;
    std::set<std::string> names;
    if (has_groups(resources)) {
        if (resources.instance_type || resources.instance_count)
            problems.push_back(
                {"resourceConfig",
                 "InstanceGroups cannot be given together with InstanceType and InstanceCount"});
        std::int64_t total = 0;
        for (const shapes::InstanceGroup& group : *resources.instance_groups) {
            if (!names.insert(*group.instance_group_name).second)
                problems.push_back({"resourceConfig.instanceGroups",
                                    fmt::format("The instance group name \"{}\" is used twice; "
                                                "names must be unique",
                                                *group.instance_group_name)});
            if (*group.instance_count < 1)
                problems.push_back(
                    {"resourceConfig.instanceGroups",
                     fmt::format("The instance group \"{}\" has no instances: give it at least 1",
                                 *group.instance_group_name)});
            total = std::min(total + *group.instance_count, 2 * kMostInstances);
        }
        if (total > kMostInstances)
            problems.push_back(
                {"resourceConfig.instanceGroups",
                 fmt::format("A job has at most {} instances in all its groups", kMostInstances)});
    }
    if (!request.input_data_config) return;
    for (const shapes::Channel& channel : *request.input_data_config) {
        const auto& source = channel.data_source->s3_data_source;
        if (!source || !source->instance_group_names || source->instance_group_names->empty())
            continue;
        const std::set<std::string> asked(source->instance_group_names->begin(),
                                          source->instance_group_names->end());
        const auto unknown = std::ranges::find_if(
            asked, [&](const std::string& name) { return !names.contains(name); });
        if (unknown != asked.end())
            problems.push_back({"inputDataConfig",
                                fmt::format("The channel \"{}\" is for the instance group \"{}\", "
                                            "which ResourceConfig does not have",
                                            *channel.channel_name, *unknown)});
        else if (asked != names)
            problems.push_back(
                {"inputDataConfig",
                 fmt::format("The channel \"{}\" is for some of the instance groups only, which is "
                             "not supported by Trainyard: name all of them or leave "
                             "InstanceGroupNames out",
                             *channel.channel_name)});
    }
}

void check_elastic(const shapes::CreateTrainingJobRequest& request,
                   std::vector<Problem>& problems) {
    Findings findings;
    const auto elastic = elastic_of(request, findings);
    for (Problem& problem : findings.take()) problems.push_back(std::move(problem));
    if (!elastic) return;
    const shapes::ResourceConfig& resources = *request.resource_config;
    if (has_groups(resources)) {
        problems.push_back({"resourceConfig.instanceGroups",
                            "An elastic job has instances of one kind: give InstanceType and "
                            "InstanceCount instead of InstanceGroups"});
    } else if (*resources.instance_count < elastic->min_nodes ||
               *resources.instance_count > elastic->max_nodes) {
        problems.push_back(
            {"resourceConfig.instanceCount",
             fmt::format("InstanceCount {} is what the elastic job starts with and lies outside "
                         "its range {}:{}",
                         *resources.instance_count, elastic->min_nodes, elastic->max_nodes)});
    }
}

void check_spot(const shapes::CreateTrainingJobRequest& request, std::vector<Problem>& problems) {
    if (!request.enable_managed_spot_training.value_or(false)) return;
    const shapes::StoppingCondition& stopping = *request.stopping_condition;
    if (!stopping.max_wait_time_in_seconds) {
        problems.push_back(
            {"stoppingCondition.maxWaitTimeInSeconds",
             "MaxWaitTimeInSeconds must be given when EnableManagedSpotTraining is true"});
    } else if (*stopping.max_wait_time_in_seconds <
               stopping.max_runtime_in_seconds.value_or(86400)) {
        problems.push_back(
            {"stoppingCondition.maxWaitTimeInSeconds",
             fmt::format(
                 "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal "
                 "to MaxRuntimeInSeconds ({} < {})",
                 *stopping.max_wait_time_in_seconds,
                 stopping.max_runtime_in_seconds.value_or(86400))});
    }
    if (request.resource_config->keep_alive_period_in_seconds.value_or(0) > 0)
        problems.push_back(
            {"resourceConfig.keepAlivePeriodInSeconds",
             "KeepAlivePeriodInSeconds cannot be given when EnableManagedSpotTraining is true"});
}

}  // namespace

std::vector<Problem> find_missing(const shapes::CreateTrainingJobRequest& request) {
    std::vector<Problem> problems;
    if (request.serverless_job_config) return problems;  // refused by the table of fields
    if (!request.algorithm_specification) problems.push_back(missing("algorithmSpecification"));
    if (!request.stopping_condition) problems.push_back(missing("stoppingCondition"));
    if (!request.resource_config) {
        problems.push_back(missing("resourceConfig"));
        return problems;
    }
    const shapes::ResourceConfig& resources = *request.resource_config;
    if (has_groups(resources)) return problems;
    if (!resources.instance_type) problems.push_back(missing("resourceConfig.instanceType"));
    if (!resources.instance_count) {
        problems.push_back(missing("resourceConfig.instanceCount"));
    } else if (*resources.instance_count == 0) {
        problems.push_back(
            {"resourceConfig.instanceCount",
             "Value '0' at 'resourceConfig.instanceCount' failed to satisfy constraint: "
             "Member must have value greater than or equal to 1"});
    }
    return problems;
}

std::vector<Problem> find_contradictions(const shapes::CreateTrainingJobRequest& request) {
    std::vector<Problem> problems;
    check_algorithm(*request.algorithm_specification, problems);
    if (request.input_data_config) check_channels(*request.input_data_config, problems);
    check_groups(request, problems);
    check_elastic(request, problems);
    check_spot(request, problems);
    return problems;
}

}  // namespace ty::api::sagemaker
