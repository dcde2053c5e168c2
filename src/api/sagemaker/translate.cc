// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/translate.h"

#include "api/sagemaker/instances.h"
#include "base/shape.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

constexpr std::int64_t kDefaultRuntime = 86400;

/// Collects what is wrong instead of stopping at the first thing.
class Findings {
public:
    void add(std::string path, std::string message) {
        problems_.push_back({std::move(path), std::move(message)});
    }
    /// Run fn; a user's mistake it throws becomes a finding. Failures of ours pass through.
    template <typename Fn>
    void collect(const std::string& path, Fn&& fn) {
        try {
            fn();
        } catch (const Error& error) {
            if (error.code() != Code::invalid && error.code() != Code::unsupported &&
                error.code() != Code::not_found)
                throw;
            add(path, error.message());
        }
    }
    void throw_if_any() {
        if (problems_.empty()) return;
        std::string text =
            problems_.size() == 1 ? problems_[0].message : shape::violation_text(problems_);
        throw Error(Code::invalid, "ValidationException", std::move(text), std::move(problems_));
    }

private:
    std::vector<Problem> problems_;
};

plan::Pairs pairs_of(const std::optional<shape::Entries<std::string>>& entries) {
    return entries.value_or(plan::Pairs{});
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

/// GPUs the job gets. A GPU type never lands on the CPU silently.
int gpus_of(const std::string& type, const Settings& settings, Findings& findings,
            std::vector<std::string>& warnings) {
    const Accelerators wanted = accelerators_of(type);
    if (wanted.kind == Accelerator::none) return 0;
    const auto mapped = settings.instance_map.find(type);
    if (mapped != settings.instance_map.end() && mapped->second == "cpu") {
        warnings.push_back(
            fmt::format("{} is mapped to the CPU of this machine by configuration: no "
                        "accelerator is used",
                        type));
        return 0;
    }
    if (wanted.kind == Accelerator::gpu && wanted.count <= settings.host_gpus) return wanted.count;
    const std::string needs = wanted.kind == Accelerator::gpu
                                  ? fmt::format("{} GPU{} and this machine has {}", wanted.count,
                                                wanted.count == 1 ? "" : "s", settings.host_gpus)
                                  : std::string("Neuron devices, which are not available");
    findings.add(
        "resourceConfig.instanceType",
        fmt::format("The instance type {0} needs {1}: choose a CPU type such as ml.m5.xlarge, "
                    "or allow it to run on the CPU by mapping \"{0}\" to \"cpu\" in the "
                    "configuration's instance map",
                    type, needs));
    return 0;
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
    const shapes::AlgorithmSpecification& algorithm = *request.algorithm_specification;
    const Settings& settings = services.settings;
    Findings findings;
    jobs::JobSpec spec;
    spec.name = *request.training_job_name;
    spec.region = region;
    spec.account = settings.account;
    spec.arn = job_arn(region, settings.account, spec.name);
    spec.instance_count = static_cast<int>(*request.resource_config->instance_count);

    plan::NodePlan& node = spec.node;
    node.job_name = spec.name;
    node.job_arn = spec.arn;
    node.region = region;
    node.account = settings.account;
    node.role_arn = *request.role_arn;
    node.endpoint = settings.endpoint;
    node.instance_type = *request.resource_config->instance_type;
    node.gpus = gpus_of(node.instance_type, settings, findings, warnings);
    node.entrypoint = algorithm.container_entrypoint.value_or(std::vector<std::string>{});
    node.arguments = algorithm.container_arguments.value_or(std::vector<std::string>{});
    node.hyperparameters = pairs_of(request.hyper_parameters);
    node.variables = pairs_of(request.environment);
    node.limits.max_runtime =
        seconds(request.stopping_condition->max_runtime_in_seconds.value_or(kDefaultRuntime));
    node.limits.stop_grace = settings.stop_grace;
    node.sdk_files = settings.job_files;
    node.limits.stop_grace = settings.stop_grace;
    node.sdk_files = settings.job_files;
    findings.collect("algorithmSpecification.trainingImage", [&] {
        node.environment = services.images.resolve(*algorithm.training_image);
        // Before the image's own variables, which may replace them.
        node.environment.variables.insert(node.environment.variables.begin(),
                                          settings.job_variables.begin(),
                                          settings.job_variables.end());
    });
    for (const auto& definition : metrics_of(request))
        findings.collect("algorithmSpecification.metricDefinitions",
                         [&] { telemetry::check_definition(definition); });
    check_output(*request.output_data_config->s3_output_path, services, findings);
    node.channels = channels_of(request, services, region, findings);
    findings.throw_if_any();

    node.environment.variables = layered(settings.job_variables, node.environment.variables);
    node.output.uri = output_uri(*request.output_data_config->s3_output_path, spec.name);
    if (request.output_data_config->compression_type == "NONE")
        node.output.compression = plan::Output::Compression::none;
    warn_of_names(node.channels, warnings);
    spec.warning = join(warnings, "; ");
    node.warnings = std::move(warnings);
    return spec;
}

}  // namespace ty::api::sagemaker
