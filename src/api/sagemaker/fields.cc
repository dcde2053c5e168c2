// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/fields.h"

#include "base/shape.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <functional>

namespace ty::api::sagemaker {

namespace {

using enum Support;

constexpr std::string_view kCreate = "CreateTrainingJob";
constexpr std::string_view kUpdate = "UpdateTrainingJob";
constexpr std::string_view kList = "ListTrainingJobs";
constexpr std::string_view kSearch = "Search";

constexpr FieldRule kRules[] = {
    {"AddTags", "ResourceArn", works, "The ARN of a training job."},
    {"AddTags", "Tags", works, ""},
    {"ListTags", "ResourceArn", works, "The ARN of a training job."},
    {"ListTags", "NextToken", ignored, "All tags come in one page."},
    {"ListTags", "MaxResults", ignored, "All tags come in one page."},
    {"DeleteTags", "ResourceArn", works, "The ARN of a training job."},
    {"DeleteTags", "TagKeys", works, ""},

    {kCreate, "TrainingJobName", works, ""},
    {kCreate, "HyperParameters", works,
     "Order and text are kept. `trainyard_elastic` (\"1:4\") makes the job elastic and is kept "
     "from "
     "the program."},
    {kCreate, "AlgorithmSpecification.TrainingImage", works,
     "Names an environment of this machine; an image nobody maps is refused with the nearest "
     "choices."},
    {kCreate, "AlgorithmSpecification.AlgorithmName", refused,
     "algorithm resources and the marketplace are not available; give TrainingImage"},
    {kCreate, "AlgorithmSpecification.TrainingInputMode", works, ""},
    {kCreate, "AlgorithmSpecification.TrainingInputMode", refused,
     "pipe mode is not available; use File", When::equals, "Pipe"},
    {kCreate, "AlgorithmSpecification.TrainingInputMode", warned,
     "FastFile input is copied before the start, as File", When::equals, "FastFile"},
    {kCreate, "AlgorithmSpecification.MetricDefinitions", works,
     "Regular expressions of RE2: no look-around, no back-references."},
    {kCreate, "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries", ignored, ""},
    {kCreate, "AlgorithmSpecification.ContainerEntrypoint", works, ""},
    {kCreate, "AlgorithmSpecification.ContainerArguments", works, ""},
    {kCreate, "AlgorithmSpecification.TrainingImageConfig", ignored,
     "No registry is asked for the image."},
    {kCreate, "RoleArn", works,
     "Recorded; the job's own credentials reach everything stored here."},
    {kCreate, "InputDataConfig[].ChannelName", works, ""},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.S3DataType", works, ""},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.S3DataType", refused,
     "only S3Prefix data is available", When::other_than, "S3Prefix"},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.S3Uri", works,
     "At least one object must exist."},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.S3DataDistributionType", works,
     "With ShardedByS3Key every host gets its share of the objects; with one instance all."},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.AttributeNames", refused,
     "attribute names belong to augmented manifests, which are not available; leave them out",
     When::not_empty},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.InstanceGroupNames", works,
     "Must name every instance group, as leaving it out does; a channel for some of them is "
     "refused."},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.ModelAccessConfig", ignored, ""},
    {kCreate, "InputDataConfig[].DataSource.S3DataSource.HubAccessConfig", refused,
     "content of a hub is not available; copy it to a bucket"},
    {kCreate, "InputDataConfig[].DataSource.FileSystemDataSource", refused,
     "EFS and FSx file systems are not available; upload the data and use S3DataSource"},
    {kCreate, "InputDataConfig[].DataSource.DatasetSource", refused,
     "hub data sets are not available; upload the data and use S3DataSource"},
    {kCreate, "InputDataConfig[].ContentType", works, ""},
    {kCreate, "InputDataConfig[].CompressionType", works, ""},
    {kCreate, "InputDataConfig[].CompressionType", refused,
     "Gzip input is unpacked in pipe mode only, which is not available; use None and unpack in the "
     "program",
     When::equals, "Gzip"},
    {kCreate, "InputDataConfig[].RecordWrapperType", ignored,
     "Has a meaning in pipe mode only; the program is told what was asked."},
    {kCreate, "InputDataConfig[].InputMode", works, ""},
    {kCreate, "InputDataConfig[].InputMode", refused, "pipe mode is not available; use File",
     When::equals, "Pipe"},
    {kCreate, "InputDataConfig[].InputMode", warned,
     "FastFile input is copied before the start, as File", When::equals, "FastFile"},
    {kCreate, "InputDataConfig[].ShuffleConfig", ignored, "The files of a folder have no order."},
    {kCreate, "OutputDataConfig.S3OutputPath", works,
     "The bucket must exist when the job is created."},
    {kCreate, "OutputDataConfig.KmsKeyId", ignored, "Nothing is encrypted at rest."},
    {kCreate, "OutputDataConfig.CompressionType", works, ""},
    {kCreate, "ResourceConfig.InstanceType", works,
     "A GPU type needs that many GPUs in this machine for every instance, or a mapping to the CPU "
     "in the configuration."},
    {kCreate, "ResourceConfig.InstanceCount", works,
     "Every instance is a sandbox with a host name and an address of its own. What an elastic job "
     "starts with."},
    {kCreate, "ResourceConfig.InstanceCount", refused, "a job has at most 100 instances",
     When::above, "100"},
    {kCreate, "ResourceConfig.VolumeSizeInGB", ignored, "Jobs share the disk of the machine."},
    {kCreate, "ResourceConfig.VolumeKmsKeyId", ignored, "Nothing is encrypted at rest."},
    {kCreate, "ResourceConfig.KeepAlivePeriodInSeconds", ignored,
     "Jobs start at once; there are no warm pools."},
    {kCreate, "ResourceConfig.InstanceGroups", works,
     "Hosts are numbered through the groups in their order. All groups need the same number of "
     "GPUs per instance."},
    {kCreate, "ResourceConfig.TrainingPlanArn", refused,
     "training plans reserve capacity of AWS; leave it out"},
    {kCreate, "ResourceConfig.InstancePlacementConfig", ignored, ""},
    {kCreate, "VpcConfig", ignored, "Jobs use the network of the machine."},
    {kCreate, "StoppingCondition.MaxRuntimeInSeconds", works,
     "86,400 when not given. Counts the training of all attempts."},
    {kCreate, "StoppingCondition.MaxWaitTimeInSeconds", works,
     "From creation, waiting for a free slot included. Without spot training it is recorded only."},
    {kCreate, "StoppingCondition.MaxPendingTimeInSeconds", ignored,
     "Jobs wait for a free slot as long as it takes."},
    {kCreate, "Tags", works,
     "`trainyard:elastic` = \"min:max\" or \"min:max:restarts\" makes the job elastic; "
     "`trainyard:checkpoints-kept` = how many complete checkpoints stay restorable (3); "
     "`trainyard:resume-from` = id of the checkpoint to start from. They count when the job is "
     "created."},
    {kCreate, "EnableNetworkIsolation", works, ""},
    {kCreate, "EnableNetworkIsolation", warned,
     "network isolation is recorded but not enforced: the program can reach the network",
     When::is_true},
    {kCreate, "EnableInterContainerTrafficEncryption", ignored,
     "The network between the hosts of a job does not leave this machine."},
    {kCreate, "EnableManagedSpotTraining", works,
     "Instances that are lost or interrupted are replaced until MaxWaitTimeInSeconds is over. "
     "Without CheckpointConfig the job says in its log that an interruption starts it over."},
    {kCreate, "CheckpointConfig.S3Uri", works,
     "The bucket must exist; the prefix may hold neither the results nor an input, nor be that of "
     "a running job. gs:// works where the configuration names Google's endpoint and keys."},
    {kCreate, "CheckpointConfig.LocalPath", works,
     "Anywhere but the system's folders, /opt/ml/input, /opt/ml/model, /opt/ml/code and those of "
     "the environment; /opt/ml/checkpoints when not given."},
    {kCreate, "DebugHookConfig", ignored, ""},
    {kCreate, "DebugRuleConfigurations", warned, "debugger rules are not evaluated",
     When::not_empty},
    {kCreate, "TensorBoardOutputConfig", warned,
     "TensorBoard files are not copied to S3OutputPath"},
    {kCreate, "ExperimentConfig", ignored, "Recorded; there are no experiments to join."},
    {kCreate, "ProfilerConfig", ignored, ""},
    {kCreate, "ProfilerRuleConfigurations", warned, "profiler rules are not evaluated",
     When::not_empty},
    {kCreate, "Environment", works, ""},
    {kCreate, "RetryStrategy", works, "Further attempts after errors of Trainyard's own."},
    {kCreate, "RemoteDebugConfig", ignored, ""},
    {kCreate, "InfraCheckConfig", ignored, ""},
    {kCreate, "SessionChainingConfig", ignored, ""},
    {kCreate, "ServerlessJobConfig", refused,
     "serverless customisation jobs are not available; give AlgorithmSpecification and "
     "ResourceConfig"},
    {kCreate, "MlflowConfig", ignored, ""},
    {kCreate, "ModelPackageConfig", refused, "there is no model registry; leave it out"},

    {kUpdate, "TrainingJobName", works, ""},
    {kUpdate, "ProfilerConfig", ignored, "Recorded and described."},
    {kUpdate, "ProfilerRuleConfigurations", ignored,
     "Recorded and described; rules are not evaluated."},
    {kUpdate, "ResourceConfig", ignored, "Recorded and described; there are no warm pools."},
    {kUpdate, "RemoteDebugConfig", ignored, "Recorded and described."},
    {"DescribeTrainingJob", "TrainingJobName", works, ""},
    {"StopTrainingJob", "TrainingJobName", works, ""},
    {"DeleteTrainingJob", "TrainingJobName", works, ""},

    {kList, "NextToken", works, ""},
    {kList, "MaxResults", works, "10 when not given."},
    {kList, "CreationTimeAfter", works, ""},
    {kList, "CreationTimeBefore", works, ""},
    {kList, "LastModifiedTimeAfter", works, ""},
    {kList, "LastModifiedTimeBefore", works, ""},
    {kList, "NameContains", works, ""},
    {kList, "StatusEquals", works, ""},
    {kList, "SortBy", works, "CreationTime when not given."},
    {kList, "SortOrder", works,
     "Newest first when not given; Ascending when sorted by another field."},
    {kList, "WarmPoolStatusEquals", works, "There are no warm pools: nothing is found."},
    {kList, "TrainingPlanArnEquals", works, "There are no training plans: nothing is found."},

    {kSearch, "Resource", works, ""},
    {kSearch, "Resource", refused, "only TrainingJob can be searched", When::other_than,
     "TrainingJob"},
    {kSearch, "SearchExpression", works,
     "Filters, NestedFilters and SubExpressions with all operators."},
    {kSearch, "SortBy", works, "LastModifiedTime when not given."},
    {kSearch, "SortOrder", works, "Descending when not given."},
    {kSearch, "NextToken", works, ""},
    {kSearch, "MaxResults", works, "10 when not given."},
    {kSearch, "CrossAccountFilterOption", ignored, "There is one account."},
    {kSearch, "VisibilityConditions", ignored, ""},
};

std::string as_text(const Json& value) {
    return value.is_string() ? value.get_ref<const std::string&>() : dump_json(value);
}

bool applies(const FieldRule& rule, const Json& value) {
    switch (rule.when) {
        case When::always:
            return true;
        case When::equals:
            return as_text(value) == rule.operand;
        case When::other_than:
            return as_text(value) != rule.operand;
        case When::above:
            return value.is_number() &&
                   value.get<double>() > parse_double(rule.operand).value_or(0);
        case When::is_true:
            return value.is_boolean() && value.get<bool>();
        case When::not_empty:
            return !value.empty();
    }
    return false;
}

using Visit = std::function<void(const std::string& path, const Json& value)>;

/// Calls `visit` with each value the path names and its path in the words of messages.
void walk(const Json& value, std::string_view path, const std::string& at, const Visit& visit) {
    if (value.is_null()) return;
    if (path.empty()) return visit(at, value);
    const std::size_t dot = std::min(path.find('.'), path.size());
    std::string_view step = path.substr(0, dot);
    const std::string_view rest = path.substr(std::min(dot + 1, path.size()));
    const bool each = step.ends_with("[]");
    if (each) step.remove_suffix(2);
    if (!value.is_object()) return;
    const auto member = value.find(std::string(step));
    if (member == value.end()) return;
    const std::string here = (at.empty() ? "" : at + ".") + shape::lower_camel(step);
    if (!each) return walk(*member, rest, here, visit);
    if (!member->is_array()) return;
    for (std::size_t i = 0; i < member->size(); ++i)
        walk((*member)[i], rest, fmt::format("{}.{}.member", here, i + 1), visit);
}

}  // namespace

std::span<const FieldRule> field_rules() {
    return kRules;
}

std::vector<Problem> find_unsupported(std::string_view operation, const Json& request) {
    std::vector<Problem> problems;
    for (const FieldRule& rule : kRules) {
        if (rule.operation != operation || rule.support != refused) continue;
        walk(request, rule.path, "", [&](const std::string& path, const Json& value) {
            if (!applies(rule, value)) return;
            const std::string text =
                value.is_structured()
                    ? ""
                    : fmt::format("Value '{}' at ", truncate_utf8(as_text(value), 256));
            problems.push_back({path, fmt::format("{}'{}' is not supported by Trainyard: {}", text,
                                                  path, rule.note)});
        });
    }
    return problems;
}

void refuse_unsupported(std::string_view operation, const Json& request) {
    auto problems = find_unsupported(operation, request);
    if (problems.empty()) return;
    std::string text = problems.size() == 1 ? problems[0].message : shape::violation_text(problems);
    throw Error(Code::invalid, "ValidationException", std::move(text), std::move(problems));
}

std::vector<std::string> find_warnings(std::string_view operation, const Json& request) {
    std::vector<std::string> notes;
    for (const FieldRule& rule : kRules) {
        if (rule.operation != operation || rule.support != warned) continue;
        bool found = false;
        walk(request, rule.path, "",
             [&](const std::string&, const Json& value) { found = found || applies(rule, value); });
        if (found && std::ranges::find(notes, rule.note) == notes.end())
            notes.emplace_back(rule.note);
    }
    return notes;
}

}  // namespace ty::api::sagemaker
