// SPDX-License-Identifier: Apache-2.0
// deps: ty_base ty_sys ty_http ty_aws
// From CreateTrainingJob accepted to the program's first line and to Completed with its artefact
// stored, against the bare shell as the limit. Usage: bench_job_latency ENDPOINT ACCESS_KEY
// SECRET_KEY ROUNDS The bucket "bench" must exist. Prints one line of JSON with medians in
// milliseconds.
#include "aws/aws.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "sys/sys.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace ty;

class Api {
public:
    Api(http::Url url, aws::Credentials keys)
        : url_(std::move(url)), keys_(std::move(keys)), client_(url_) {}
    Json call(const std::string& target, const std::string& service, const Json& input) {
        const std::string body = dump_json(input);
        http::ClientRequest request{.method = "POST", .target = "/", .body = body};
        request.headers.add("X-Amz-Target", target);
        request.headers.add("Content-Type", "application/x-amz-json-1.1");
        aws::sign(request, url_.host + ":" + std::to_string(url_.port), keys_, "us-east-1", service,
                  clock_.now(), sha256_hex(body));
        const auto response = client_.send(request, Deadline::in(seconds(30)));
        if (response.status != 200)
            throw_error(Code::internal, "", "{}: {}", target, response.body);
        return response.body.empty() ? Json::object() : parse_json(response.body);
    }

private:
    http::Url url_;
    aws::Credentials keys_;
    http::Client client_;
    SystemClock clock_;
};

// Nanoseconds of the wall clock, read by the program as its first act.
constexpr const char* kProgram = "date +%s%N; echo weights > /opt/ml/model/weights.txt";

double now_ms(const Clock& clock) {
    return double(to_epoch_millis(clock.now()));
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values.empty() ? 0 : values[values.size() / 2];
}

struct Round {
    double first_line, completed;
};

Round one_round(Api& api, const std::string& name) {
    SystemClock clock;
    const Json job = {
        {"TrainingJobName", name},
        {"AlgorithmSpecification",
         {{"TrainingImage", "trainyard/host"},
          {"TrainingInputMode", "File"},
          {"ContainerEntrypoint", {"/bin/sh", "-c", kProgram}}}},
        {"RoleArn", "arn:aws:iam::000000000000:role/TrainyardExecutionRole"},
        {"OutputDataConfig", {{"S3OutputPath", "s3://bench/out"}}},
        {"ResourceConfig",
         {{"InstanceType", "ml.m5.large"}, {"InstanceCount", 1}, {"VolumeSizeInGB", 10}}},
        {"StoppingCondition", {{"MaxRuntimeInSeconds", 600}}}};
    api.call("SageMaker.CreateTrainingJob", "sagemaker", job);
    const double accepted = now_ms(clock);
    std::string status = "InProgress";
    while (status == "InProgress") {
        sys::pause(Deadline::in(milliseconds(2)), {});
        status = api.call("SageMaker.DescribeTrainingJob", "sagemaker", {{"TrainingJobName", name}})
                     .at("TrainingJobStatus")
                     .get<std::string>();
    }
    const double completed = now_ms(clock);
    if (status != "Completed") throw_error(Code::internal, "", "job {} is {}", name, status);
    const Json streams = api.call(
        "Logs_20140328.DescribeLogStreams", "logs",
        {{"logGroupName", "/aws/sagemaker/TrainingJobs"}, {"logStreamNamePrefix", name + "/"}});
    const Json events =
        api.call("Logs_20140328.GetLogEvents", "logs",
                 {{"logGroupName", "/aws/sagemaker/TrainingJobs"},
                  {"startFromHead", true},
                  {"logStreamName", streams.at("logStreams").at(0).at("logStreamName")}});
    for (const Json& event : events.at("events")) {
        const auto stamp = parse_int(trim(event.at("message").get<std::string>()));
        if (stamp) return {double(*stamp) / 1e6 - accepted, completed - accepted};
    }
    throw_error(Code::internal, "", "job {} printed no time", name);
}

double bare_shell() {
    SystemClock clock;
    const double start = now_ms(clock);
    const sys::Output output =
        sys::run({.argv = {"/bin/sh", "-c", "date +%s%N"}}, Deadline::in(seconds(5)));
    return double(parse_int(trim(output.text)).value_or(0)) / 1e6 - start;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) return std::fprintf(stderr, "usage: see the source\n"), 2;
    try {
        Api api(http::parse_url(argv[1]), {.access_key = argv[2], .secret_key = argv[3]});
        std::vector<double> first, completed, bare;
        SystemIds ids;
        const std::string prefix = "latency-" + ids.token(6);
        for (int i = 0; i < std::atoi(argv[4]); ++i) {
            const Round round = one_round(api, prefix + "-" + std::to_string(i));
            first.push_back(round.first_line);
            completed.push_back(round.completed);
            bare.push_back(bare_shell());
        }
        std::printf(
            "{\"rounds\":%zu,\"first_line_ms\":%.1f,\"completed_ms\":%.1f,\"bare_sh_ms\":%.1f}\n",
            first.size(), median(first), median(completed), median(bare));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
