// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/translate.h"

#include "api/sagemaker/checkpoints.h"
#include "api/sagemaker/cluster.h"
#include "api/sagemaker/findings.h"
#include "api/sagemaker/wishes.h"
#include "base/shape.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

constexpr std::int64_t kDefaultRuntime = 86400;

void throw_if_any(std::vector<Problem> problems) {
    if (problems.empty()) return;
    std::string text = problems.size() == 1 ? problems[0].message : shape::violation_text(problems);
    throw Error(Code::invalid, "ValidationException", std::move(text), std::move(problems));
}

plan::Pairs pairs_of(const std::optional<shape::Entries<std::string>>& entries) {
    return entries.value_or(plan::Pairs{});
}

/// Hyperparameters of the program: those that speak to us are not among them.
plan::Pairs hyperparameters_of(const shapes::CreateTrainingJobRequest& request) {
    plan::Pairs pairs = pairs_of(request.hyper_parameters);
    std::erase_if(pairs, [](const auto& pair) { return pair.first == kElasticHyperparameter; });
    return pairs;
}

plan::InputMode input_mode_of(const std::string& mode) {
    // FastFile is served as File; Pipe was refused by the table of fields.
    return mode == "FastFile" || mode == "File" ? plan::InputMode::file : plan::InputMode::pipe;
}

/// `below` without the names that `above` sets, then `above`.
plan::Pairs layered(const plan::Pairs& below, const plan::Pairs& above) {
    plan::Pairs all;
    for (const auto& pair : below) {
        const auto same = [&](const auto& other) { return other.first == pair.first; };
        if (std::ranges::none_of(above, same)) all.push_back(pair);
    }
    all.insert(all.end(), above.begin(), above.end());
    return all;
}

/// Key of an S3 URI as a folder: no slash at either end.
std::string output_uri(const std::string& path, const std::string& job) {
    const aws::S3Uri uri = aws::parse_s3_uri(path);
    std::string key = uri.key;
    while (!key.empty() && key.back() == '/') key.pop_back();
    return fmt::format("s3://{}/{}{}{}/output", uri.bucket, key, key.empty() ? "" : "/", job);
}

bool has_objects(const objects::ObjectStore& store, const aws::S3Uri& uri) {
    if (!store.find_bucket(uri.bucket)) return false;
    return !store.list(uri.bucket, {.prefix = uri.key, .delimiter = {}, .after = {}, .limit = 1})
                .objects.empty();
}

std::vector<plan::Channel> channels_of(const shapes::CreateTrainingJobRequest& request,
                                       const Services& services, const std::string& region,
                                       Findings& findings) {
    std::vector<plan::Channel> channels;
    if (!request.input_data_config) return channels;
    const std::string& job_mode = *request.algorithm_specification->training_input_mode;
    for (const shapes::Channel& asked : *request.input_data_config) {
        findings.collect("inputDataConfig", [&] {
            const shapes::S3DataSource& source = *asked.data_source->s3_data_source;
            const aws::S3Uri uri = aws::parse_s3_uri(*source.s3_uri);
            if (!has_objects(services.objects, uri))
                throw_error(
                    Code::invalid, "ValidationException",
                    "No S3 objects found under S3 URL \"{}\" given in input data source. Please "
                    "ensure that the bucket exists in the selected region ({}), that objects "
                    "exist under that S3 prefix, and that the role \"{}\" has "
                    "\"s3:ListBucket\" permissions on bucket \"{}\".",
                    *source.s3_uri, region, *request.role_arn, uri.bucket);
            plan::Channel channel;
            channel.name = *asked.channel_name;
            channel.uri = fmt::format("s3://{}/{}", uri.bucket, uri.key);
            if (source.s3_data_distribution_type == "ShardedByS3Key")
                channel.distribution = plan::Distribution::sharded_by_key;
            channel.input_mode = input_mode_of(asked.input_mode.value_or(job_mode));
            channel.content_type = asked.content_type.value_or("");
            channel.record_wrapper = asked.record_wrapper_type.value_or("None");
            channel.compression = asked.compression_type.value_or("None");
            channels.push_back(std::move(channel));
        });
    }
    return channels;
}

void check_output(const std::string& path, const Services& services, Findings& findings) {
    findings.collect("outputDataConfig.s3OutputPath", [&] {
        const aws::S3Uri uri = aws::parse_s3_uri(path);
        if (!services.objects.find_bucket(uri.bucket))
            throw_error(
                Code::invalid, "ValidationException",
                "The bucket \"{0}\" of OutputDataConfig.S3OutputPath \"{1}\" does not exist: "
                "create it first (aws s3 mb s3://{0})",
                uri.bucket, path);
    });
}

/// Advice on names that AWS's own entry script of the SDK's ModelTrainer cannot export.
void warn_of_names(const std::vector<plan::Channel>& channels, std::vector<std::string>& warnings) {
    if (std::ranges::find(channels, "sm_drivers", &plan::Channel::name) == channels.end()) return;
    for (const plan::Channel& channel : channels) {
        if (channel.name.find_first_of("-.") != std::string::npos)
            warnings.push_back(
                fmt::format("the entry script of ModelTrainer cannot export the variable "
                            "of channel \"{}\": use letters, digits and _",
                            channel.name));
    }
}

/// Instances, groups and GPUs.
void place(const shapes::CreateTrainingJobRequest& request, const Settings& settings,
           jobs::JobSpec& spec, Findings& findings, std::vector<std::string>& warnings) {
    // What is wrong with the range was said with the other contradictions.
    Findings said;
    spec.node.elastic = elastic_of(request, said);
    Cluster cluster =
        cluster_of(*request.resource_config, spec.node.elastic, settings, findings, warnings);
    spec.instance_count = cluster.instances;
    spec.node.instance_type = std::move(cluster.instance_type);
    spec.node.groups = std::move(cluster.groups);
    if (!spec.node.groups.empty()) spec.node.instance_group = spec.node.groups.front().name;
    spec.node.gpus = cluster.gpus;
}

/// Spot and retries, and what the user should know who has no checkpoints.
void survive(const shapes::CreateTrainingJobRequest& request, jobs::JobSpec& spec,
             std::vector<std::string>& warnings) {
    const shapes::StoppingCondition& stopping = *request.stopping_condition;
    spec.spot = request.enable_managed_spot_training.value_or(false);
    // Without spot it is recorded only, as on AWS.
    if (spec.spot && stopping.max_wait_time_in_seconds)
        spec.max_wait = seconds(*stopping.max_wait_time_in_seconds);
    if (request.retry_strategy)
        spec.retries = static_cast<int>(*request.retry_strategy->maximum_retry_attempts);
    if (request.checkpoint_config) return;
    if (spec.spot)
        warnings.emplace_back(
            "managed spot training without CheckpointConfig: an interruption starts the program "
            "over from nothing");
    if (has_checkpoint_tags(request))
        warnings.emplace_back("tags about checkpoints have no effect without CheckpointConfig");
}

/// What the request says of the program itself.
void describe_program(const shapes::CreateTrainingJobRequest& request, const Settings& settings,
                      jobs::JobSpec& spec) {
    const shapes::AlgorithmSpecification& algorithm = *request.algorithm_specification;
    plan::NodePlan& node = spec.node;
    node.job_name = spec.name;
    node.job_arn = spec.arn;
    node.region = spec.region;
    node.account = settings.account;
    node.role_arn = *request.role_arn;
    node.endpoint = settings.endpoint;
    node.entrypoint = algorithm.container_entrypoint.value_or(std::vector<std::string>{});
    node.arguments = algorithm.container_arguments.value_or(std::vector<std::string>{});
    node.hyperparameters = hyperparameters_of(request);
    node.variables = pairs_of(request.environment);
    node.limits.max_runtime =
        seconds(request.stopping_condition->max_runtime_in_seconds.value_or(kDefaultRuntime));
    node.limits.stop_grace = settings.stop_grace;
    node.sdk_files = settings.job_files;
}

}  // namespace

std::string job_arn(const std::string& region, const std::string& account,
                    const std::string& name) {
    return fmt::format("arn:{}:sagemaker:{}:{}:training-job/{}", aws::partition_of(region), region,
                       account, to_lower(name));
}

std::vector<telemetry::MetricDefinition> metrics_of(
    const shapes::CreateTrainingJobRequest& request) {
    std::vector<telemetry::MetricDefinition> definitions;
    const auto& asked = request.algorithm_specification->metric_definitions;
    if (!asked) return definitions;
    for (const auto& metric : *asked) definitions.push_back({*metric.name, *metric.regex});
    return definitions;
}

jobs::JobSpec job_spec_of(const shapes::CreateTrainingJobRequest& request, const Services& services,
                          const std::string& region, std::vector<std::string> warnings) {
    const Settings& settings = services.settings;
    Findings findings;
    jobs::JobSpec spec;
    spec.name = *request.training_job_name;
    spec.region = region;
    spec.account = settings.account;
    spec.arn = job_arn(region, settings.account, spec.name);
    place(request, settings, spec, findings, warnings);
    survive(request, spec, warnings);
    describe_program(request, settings, spec);

    plan::NodePlan& node = spec.node;
    findings.collect("algorithmSpecification.trainingImage", [&] {
        node.environment =
            services.images.resolve(*request.algorithm_specification->training_image);
    });
    for (const auto& definition : metrics_of(request))
        findings.collect("algorithmSpecification.metricDefinitions",
                         [&] { telemetry::check_definition(definition); });
    check_output(*request.output_data_config->s3_output_path, services, findings);
    findings.collect("outputDataConfig.s3OutputPath", [&] {
        node.output.uri = output_uri(*request.output_data_config->s3_output_path, spec.name);
    });
    node.channels = channels_of(request, services, region, findings);
    if (!node.output.uri.empty())
        node.checkpoint = checkpoint_of(request, services, node, findings);
    throw_if_any(findings.take());

    node.environment.variables = layered(settings.job_variables, node.environment.variables);
    if (request.output_data_config->compression_type == "NONE")
        node.output.compression = plan::Output::Compression::none;
    warn_of_names(node.channels, warnings);
    spec.warning = join(warnings, "; ");
    node.warnings = std::move(warnings);
    return spec;
}

}  // namespace ty::api::sagemaker
