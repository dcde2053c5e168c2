// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/checkpoints.h"

#include "api/sagemaker/wishes.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

constexpr std::string_view kGoogle = "gs://";

struct Reserved {
    std::string_view folder, what;
};

constexpr Reserved kReserved[] = {
    {"/usr", "the system's programs"},
    {"/bin", "the system's programs"},
    {"/sbin", "the system's programs"},
    {"/lib", "the system's libraries"},
    {"/lib32", "the system's libraries"},
    {"/lib64", "the system's libraries"},
    {"/libx32", "the system's libraries"},
    {"/etc", "the system's configuration"},
    {"/proc", "the kernel's"},
    {"/sys", "the kernel's"},
    {"/dev", "the devices"},
    {"/run", "the system's"},
    {"/boot", "the system's"},
    {"/opt/trainyard", "Trainyard's own files"},
    {"/opt/ml/input", "the input"},
    {"/opt/ml/model", "the model, which is uploaded once"},
    {"/opt/ml/code", "the code"},
    {"/opt/ml/output/data", "the job's results"},
    {"/opt/ml/output/failure", "the reason of a failure"},
};

bool is_within(std::string_view path, std::string_view folder) {
    return path == folder || (path.size() > folder.size() && path.starts_with(folder) &&
                              (folder.empty() || folder == "/" || path[folder.size()] == '/'));
}

bool overlap(std::string_view a, std::string_view b) {
    return is_within(a, b) || is_within(b, a);
}

std::string without_slashes(std::string key) {
    while (!key.empty() && key.back() == '/') key.pop_back();
    return key;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw_error(Code::invalid, "ValidationException",
                "The LocalPath \"{}\" of CheckpointConfig {}: choose a folder of its own such as "
                "/opt/ml/checkpoints",
                truncate_utf8(path, 200), why);
}

plan::Checkpoint in_google(const std::string& uri, const Settings& settings) {
    if (settings.google.endpoint.empty())
        throw_error(Code::invalid, "ValidationException",
                    "The S3Uri \"{}\" of CheckpointConfig needs Google's storage: set "
                    "google_endpoint, google_access_key and google_secret_key under [checkpoints] "
                    "in the configuration, or give an s3:// URI",
                    uri);
    const aws::S3Uri parsed = aws::parse_s3_uri("s3://" + uri.substr(kGoogle.size()));
    plan::Checkpoint checkpoint;
    const std::string key = without_slashes(parsed.key);
    checkpoint.uri = fmt::format("gs://{}{}{}", parsed.bucket, key.empty() ? "" : "/", key);
    checkpoint.endpoint = settings.google.endpoint;
    checkpoint.credentials = settings.google.credentials;
    return checkpoint;
}

/// Refuses a prefix that would take the job's results or inputs for checkpoints: files under it are
/// restored to every host, and removed when a host removes them.
void check_overlaps(const shapes::CreateTrainingJobRequest& request, const aws::S3Uri& place,
                    const plan::NodePlan& node) {
    const std::string& asked = *request.checkpoint_config->s3_uri;
    const auto holds = [&](const aws::S3Uri& other) {
        return other.bucket == place.bucket && is_within(without_slashes(other.key), place.key);
    };
    const std::string& output = *request.output_data_config->s3_output_path;
    const aws::S3Uri results = aws::parse_s3_uri(node.output.uri);
    if (holds(results) || (results.bucket == place.bucket && is_within(place.key, results.key)))
        throw_error(Code::invalid, "ValidationException",
                    "The S3Uri \"{}\" of CheckpointConfig and S3OutputPath \"{}\" of "
                    "OutputDataConfig overlap: give checkpoints a prefix of their own, for example "
                    "\"{}/checkpoints/{}\"",
                    asked, output, fmt::format("s3://{}", place.bucket),
                    *request.training_job_name);
    for (const plan::Channel& channel : node.channels) {
        if (holds(aws::parse_s3_uri(channel.uri)))
            throw_error(Code::invalid, "ValidationException",
                        "The S3Uri \"{}\" of CheckpointConfig holds the input \"{}\" of channel "
                        "\"{}\": give checkpoints a prefix of their own",
                        asked, channel.uri, channel.name);
    }
}

plan::Checkpoint in_own_store(const shapes::CreateTrainingJobRequest& request,
                              const Services& services, const plan::NodePlan& node) {
    const std::string& asked = *request.checkpoint_config->s3_uri;
    aws::S3Uri place = aws::parse_s3_uri(asked);
    place.key = without_slashes(place.key);
    if (!services.objects.find_bucket(place.bucket))
        throw_error(Code::invalid, "ValidationException",
                    "The bucket \"{0}\" of CheckpointConfig.S3Uri \"{1}\" does not exist: create "
                    "it first (aws s3 mb s3://{0})",
                    place.bucket, asked);
    check_overlaps(request, place, node);
    plan::Checkpoint checkpoint;
    checkpoint.uri =
        fmt::format("s3://{}{}{}", place.bucket, place.key.empty() ? "" : "/", place.key);
    return checkpoint;
}

}  // namespace

bool is_google_uri(std::string_view uri) {
    return uri.starts_with(kGoogle) && uri.size() > kGoogle.size() && uri[kGoogle.size()] != '/';
}

std::string checked_local_path(const std::string& path, const plan::Environment& environment) {
    if (!path.starts_with('/')) refuse(path, "is not absolute");
    std::string folder;
    for (const std::string& step : split(path, '/')) {
        if (step.empty() || step == ".") continue;
        if (step == "..") refuse(path, "has \"..\" in it");
        folder += "/" + step;
    }
    if (folder.empty()) refuse(path, "is the root of the file system");
    for (const Reserved& reserved : kReserved)
        if (overlap(folder, reserved.folder))
            refuse(path, fmt::format("{} {} ({})",
                                     is_within(folder, reserved.folder) ? "lies in" : "holds",
                                     reserved.folder, reserved.what));
    std::vector<std::string> needed = environment.readable;
    needed.insert(needed.end(), environment.path.begin(), environment.path.end());
    for (const std::string& other : needed)
        if (overlap(folder, without_slashes(other)))
            refuse(path, fmt::format("overlaps {}, which the environment \"{}\" needs", other,
                                     environment.name));
    return folder;
}

std::optional<plan::Checkpoint> checkpoint_of(const shapes::CreateTrainingJobRequest& request,
                                              const Services& services, const plan::NodePlan& node,
                                              Findings& findings) {
    if (!request.checkpoint_config) return std::nullopt;
    const shapes::CheckpointConfig& config = *request.checkpoint_config;
    std::optional<plan::Checkpoint> checkpoint;
    findings.collect("checkpointConfig.s3Uri", [&] {
        checkpoint = is_google_uri(*config.s3_uri) ? in_google(*config.s3_uri, services.settings)
                                                   : in_own_store(request, services, node);
    });
    plan::Checkpoint rest;
    findings.collect("checkpointConfig.localPath", [&] {
        rest.local_path =
            checked_local_path(config.local_path.value_or(rest.local_path), node.environment);
    });
    apply_checkpoint_tags(request, rest, findings);
    if (!checkpoint) return std::nullopt;
    checkpoint->local_path = rest.local_path;
    checkpoint->keep = rest.keep;
    checkpoint->resume = rest.resume;
    return checkpoint;
}

}  // namespace ty::api::sagemaker
