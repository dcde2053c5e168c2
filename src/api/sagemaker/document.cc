// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/document.h"

#include "api/prices.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace ty::api::sagemaker {

namespace {

/// Sets a member that the client left out.
void add_default(Json& object, const char* name, Json value) {
    if (!object.contains(name)) object[name] = std::move(value);
}

/// The array after `"MetricDefinitions":` in a stored document, cut out without parsing the rest:
/// most describes are of jobs without metrics. In text of our own writing the needle cannot be part
/// of a string, where quotes are escaped.
std::string_view metric_definitions(std::string_view document) {
    constexpr std::string_view kNeedle = "\"MetricDefinitions\":[";
    const std::size_t found = document.find(kNeedle);
    if (found == document.npos) return {};
    const std::size_t begin = found + kNeedle.size() - 1;
    bool in_string = false;
    for (std::size_t i = begin; i < document.size(); ++i) {
        const char c = document[i];
        if (in_string) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == ']') {
            return document.substr(begin, i + 1 - begin);
        }
    }
    return {};
}

Json final_metrics(const jobs::Job& job, const telemetry::MetricStore& metrics) {
    Json list = Json::array();
    const std::string_view definitions = metric_definitions(job.document);
    if (definitions.size() <= 2) return list;
    telemetry::MetricId id{.space = std::string(telemetry::kTrainingJobs),
                           .name = {},
                           .dimensions = {{"TrainingJobName", job.spec.name}}};
    for (const Json& definition : parse_json(definitions)) {
        id.name = definition.value("Name", "");
        const auto point = metrics.last(id);
        // A deleted job of the same name may have left points behind.
        if (!point || point->time < job.created) continue;
        list.push_back(Json{{"MetricName", id.name},
                            {"Value", static_cast<double>(static_cast<float>(point->value))},
                            {"Timestamp", to_epoch_seconds(point->time)}});
    }
    return list;
}

Json transitions_of(const jobs::Job& job) {
    Json list = Json::array();
    for (const jobs::Transition& transition : job.transitions) {
        Json entry = {{"Status", jobs::to_string(transition.status)},
                      {"StartTime", to_epoch_seconds(transition.start)}};
        if (transition.end) entry["EndTime"] = to_epoch_seconds(*transition.end);
        entry["StatusMessage"] = transition.message;
        list.push_back(std::move(entry));
    }
    return list;
}

/// Everything about a job that is not in its document.
Json state_of(const jobs::Job& job, const Services& services) {
    Json state = {{"TrainingJobArn", job.spec.arn},
                  {"TrainingJobStatus", jobs::to_string(job.status)},
                  {"SecondaryStatus", jobs::to_string(job.secondary())},
                  {"CreationTime", to_epoch_seconds(job.created)},
                  {"LastModifiedTime", to_epoch_seconds(job.modified)},
                  {"SecondaryStatusTransitions", transitions_of(job)}};
    if (!job.failure_reason.empty()) state["FailureReason"] = job.failure_reason;
    if (job.training_start) state["TrainingStartTime"] = to_epoch_seconds(*job.training_start);
    if (jobs::is_terminal(job.status)) {
        const plan::Output& output = job.spec.node.output;
        const bool packed = output.compression == plan::Output::Compression::gzip;
        state["ModelArtifacts"] = {
            {"S3ModelArtifacts", output.uri + (packed ? "/model.tar.gz" : "/model/")}};
        if (job.training_end) state["TrainingEndTime"] = to_epoch_seconds(*job.training_end);
        if (const auto spent = job.training_seconds()) {
            state["TrainingTimeInSeconds"] = *spent;
            state["BillableTimeInSeconds"] =
                jobs::billable_seconds(job, paid_ratio(job.spec, services.settings));
        }
    }
    if (Json list = final_metrics(job, services.metrics); !list.empty())
        state["FinalMetricDataList"] = std::move(list);
    const plan::Environment& environment = job.spec.node.environment;
    state["TrainyardEnvironment"] = {{"Name", environment.name},
                                     {"Description", environment.description},
                                     {"Image", environment.image}};
    return state;
}

}  // namespace

Json stored_document(const shapes::CreateTrainingJobRequest& request) {
    Json document = shape::write(request);
    document.erase("Tags");                   // ListTags gives them
    document.erase("SessionChainingConfig");  // not part of a description
    if (document.contains("AlgorithmSpecification"))
        add_default(document["AlgorithmSpecification"], "EnableSageMakerMetricsTimeSeries", false);
    if (document.contains("InputDataConfig")) {
        for (Json& channel : document["InputDataConfig"]) {
            add_default(channel, "CompressionType", "None");
            add_default(channel, "RecordWrapperType", "None");
        }
    }
    Json& output = document["OutputDataConfig"];
    add_default(output, "KmsKeyId", "");
    add_default(output, "CompressionType", "GZIP");
    add_default(document, "StoppingCondition", Json::object());
    add_default(document["StoppingCondition"], "MaxRuntimeInSeconds", 86400);
    for (const char* name : {"EnableNetworkIsolation", "EnableInterContainerTrafficEncryption",
                             "EnableManagedSpotTraining"})
        add_default(document, name, false);
    const bool profiled = document.contains("ProfilerConfig") &&
                          !document["ProfilerConfig"].value("DisableProfiler", false);
    if (profiled) add_default(document["ProfilerConfig"], "ProfilingIntervalInMilliseconds", 500);
    document["ProfilingStatus"] = profiled ? "Enabled" : "Disabled";
    return document;
}

std::string describe_job(const jobs::Job& job, const Services& services) {
    const std::string state = dump_json(state_of(job, services));
    std::string_view document = job.document;
    TY_ASSERT(document.size() > 2 && document.back() == '}');
    document.remove_suffix(1);
    std::string text;
    text.reserve(document.size() + state.size());
    text.append(document).append(",").append(state, 1);
    return text;
}

Json search_record(const jobs::Job& job, const std::vector<jobs::Tag>& tags,
                   const Services& services) {
    Json record = parse_json(job.document);
    record.update(state_of(job, services));
    for (const char* name :
         {"TrainyardEnvironment", "ProfilingStatus", "ProfilerRuleConfigurations",
          "RemoteDebugConfig", "InfraCheckConfig", "MlflowConfig"})
        record.erase(name);
    Json list = Json::array();
    for (const jobs::Tag& tag : tags) list.push_back(Json{{"Key", tag.key}, {"Value", tag.value}});
    record["Tags"] = std::move(list);
    return record;
}

}  // namespace ty::api::sagemaker
