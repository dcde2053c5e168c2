// SPDX-License-Identifier: Apache-2.0
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

namespace {

std::string text_at(const Json& value, const char* pointer) {
    const Json::json_pointer at(pointer);
    if (!value.contains(at)) return {};
    const Json& found = value.at(at);
    return found.is_string() ? found.get<std::string>() : dump_json(found);
}

void add_row(std::string& out, const char* label, const std::string& value) {
    if (!value.empty()) out += format("{:<14}{}\n", label, value);
}

/// What AWS has no words for: interruptions, checkpoint, progress.
void add_own_rows(std::string& out, const Json& own) {
    if (own.at("attempt").get<int>() > 1 || own.at("interruptions").get<int>() > 0)
        add_row(out, "attempt",
                format("{} ({} interruptions)", own.at("attempt").get<int>(),
                       own.at("interruptions").get<int>()));
    if (const Json& range = own.at("elastic"); !range.is_null())
        add_row(out, "elastic",
                format("{} wanted of {} to {}", own.at("instances").get<int>(),
                       range.at("min").get<int>(), range.at("max").get<int>()));
    if (const Json& progress = own.at("progress"); !progress.is_null()) {
        const auto total = progress.at("total").get<long long>();
        const std::string of = total > 0 ? format(" of {}", total) : "";
        add_row(out, "progress",
                format("step {}{} {}", progress.at("step").get<long long>(), of,
                       progress.at("message").get<std::string>()));
    }
    if (const Json& newest = own.at("checkpoint"); !newest.is_null())
        add_row(
            out, "checkpoint",
            format("{}{}, {} files, {} bytes, {}",
                   newest.at("step").is_null() ? "" : "step " + dump_json(newest.at("step")) + ", ",
                   newest.at("id").get<std::string>(), newest.at("files").get<int>(),
                   newest.at("size").get<std::uint64_t>(), newest.at("taken").get<std::string>()));
    if (const Json& faults = own.at("faults"); !faults.is_null())
        add_row(out, "faults",
                format("{} every {:g} s, seed {}", faults.at("kind").get<std::string>(),
                       faults.at("every").get<double>(), faults.at("seed").get<std::uint64_t>()));
}

std::string summary_of(const Json& job, const Json& own) {
    std::string out;
    add_row(out, "name", text_at(job, "/TrainingJobName"));
    add_row(out, "status",
            text_at(job, "/TrainingJobStatus") + " (" + text_at(job, "/SecondaryStatus") + ")");
    add_row(out, "reason", text_at(job, "/FailureReason"));
    add_row(out, "image", text_at(job, "/AlgorithmSpecification/TrainingImage"));
    add_row(out, "environment", text_at(job, "/TrainyardEnvironment/Description"));
    add_row(out, "instances",
            text_at(job, "/ResourceConfig/InstanceCount") + " x " +
                text_at(job, "/ResourceConfig/InstanceType"));
    add_row(out, "created", show_time(job.value("CreationTime", 0.0)));
    if (job.contains("TrainingTimeInSeconds"))
        add_row(out, "trained", show_duration(job.at("TrainingTimeInSeconds").get<long long>()));
    add_own_rows(out, own);
    add_row(out, "model", text_at(job, "/ModelArtifacts/S3ModelArtifacts"));
    out += "phases\n";
    for (const Json& t : job.value("SecondaryStatusTransitions", Json::array()))
        out += format("  {}  {:<20}{}\n", show_time(t.value("StartTime", 0.0)),
                      t.value("Status", ""), t.value("StatusMessage", ""));
    const Json metrics = job.value("FinalMetricDataList", Json::array());
    if (!metrics.empty()) out += "metrics\n";
    for (const Json& m : metrics)
        out += format("  {:<27} {:.6g}\n", m.value("MetricName", ""), m.value("Value", 0.0));
    const Json parameters = job.value("HyperParameters", Json::object());
    if (!parameters.empty()) out += "hyperparameters\n";
    for (const auto& [name, value] : parameters.items())
        out += format("  {:<27} {}\n", name, value.get<std::string>());
    return out;
}

int run_describe(const Invocation& invocation) {
    ApiClient api = connect(invocation);
    const Json job = api.call("SageMaker.DescribeTrainingJob",
                              {{"TrainingJobName", invocation.argument("JOB")}});
    if (invocation.get("output") == "json") {
        print(dump_json_pretty(job) + "\n");
        return kOk;
    }
    const Json own = api.control("GET", job_path(invocation.argument("JOB")), Json::object());
    print(summary_of(job, own));
    return kOk;
}

}  // namespace

Verb describe_verb() {
    return {.name = "describe",
            .summary = "show one job: status, phases, metrics, artefact",
            .arguments = {{.name = "JOB", .help = "name of the training job", .is_job = true}},
            .run = run_describe};
}

}  // namespace ty::cli
