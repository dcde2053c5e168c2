// SPDX-License-Identifier: Apache-2.0
// deps: ty_base ty_sys ty_http ty_aws
// Signed AWS JSON calls over keep-alive connections, against any endpoint: Trainyard or
// moto_server. Usage: bench_api_rate ENDPOINT ACCESS_KEY SECRET_KEY OPERATION CLIENTS SECONDS
// [PREFIX]
//   OPERATION: create (CreateTrainingJob, unique names) or describe (DescribeTrainingJob
//   PREFIX-0-0)
// Prints one line of JSON: requests per second and latency percentiles in milliseconds.
#include "aws/aws.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sync.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace ty;

std::string create_body(const std::string& name) {
    return R"({"TrainingJobName":")" + name +
           R"(","AlgorithmSpecification":{"TrainingImage":"trainyard/host","TrainingInputMode":"File",)"
           R"("ContainerEntrypoint":["/bin/true"]},"RoleArn":"arn:aws:iam::000000000000:role/TrainyardExecutionRole",)"
           R"("OutputDataConfig":{"S3OutputPath":"s3://bench/out"},)"
           R"("ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},)"
           R"("StoppingCondition":{"MaxRuntimeInSeconds":600}})";
}

struct Arguments {
    http::Url url;
    aws::Credentials keys;
    std::string operation, prefix;
    int clients;
    double seconds;
};

void one_client(const Arguments& arguments, int number, Deadline end,
                std::vector<double>& latencies, std::atomic<int>& failures) {
    SystemClock clock;
    http::Client client(arguments.url);
    const std::string host = arguments.url.host + ":" + std::to_string(arguments.url.port);
    const bool create = arguments.operation == "create";
    for (int i = 0; !end.passed(); ++i) {
        const std::string name = arguments.prefix + "-" + std::to_string(create ? number : 0) +
                                 "-" + std::to_string(create ? i : 0);
        const std::string body =
            create ? create_body(name) : R"({"TrainingJobName":")" + name + "\"}";
        http::ClientRequest request{.method = "POST", .target = "/", .body = body};
        request.headers.add("X-Amz-Target", create ? "SageMaker.CreateTrainingJob"
                                                   : "SageMaker.DescribeTrainingJob");
        request.headers.add("Content-Type", "application/x-amz-json-1.1");
        aws::sign(request, host, arguments.keys, "us-east-1", "sagemaker", clock.now(),
                  sha256_hex(body));
        const auto start = clock.monotonic();
        const auto response = client.send(request, Deadline::in(std::chrono::seconds(30)));
        latencies.push_back(
            std::chrono::duration<double, std::milli>(clock.monotonic() - start).count());
        if (response.status != 200 && failures.fetch_add(1) == 0)
            std::fprintf(stderr, "%s\n", response.body.c_str());
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 7) return std::fprintf(stderr, "usage: see the source\n"), 2;
    const Arguments arguments{.url = http::parse_url(argv[1]),
                              .keys = {.access_key = argv[2], .secret_key = argv[3]},
                              .operation = argv[4],
                              .prefix = argc > 7 ? argv[7] : "bench",
                              .clients = std::atoi(argv[5]),
                              .seconds = std::atof(argv[6])};
    std::vector<std::vector<double>> latencies(std::size_t(arguments.clients));
    std::atomic<int> failures = 0;
    SystemClock clock;
    const auto start = clock.monotonic();
    const Deadline end = Deadline::in(std::chrono::milliseconds(long(arguments.seconds * 1000)));
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < arguments.clients; ++i)
            threads.emplace_back(
                [&, i] { one_client(arguments, i, end, latencies[std::size_t(i)], failures); });
    }
    const double took = std::chrono::duration<double>(clock.monotonic() - start).count();
    std::vector<double> all;
    for (const auto& one : latencies) all.insert(all.end(), one.begin(), one.end());
    std::ranges::sort(all);
    const auto at = [&](double share) {
        return all.empty() ? 0.0 : all[std::size_t(share * double(all.size() - 1))];
    };
    std::printf(
        "{\"operation\":\"%s\",\"clients\":%d,\"requests\":%zu,\"failures\":%d,\"per_second\":%.0f,"
        "\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n",
        arguments.operation.c_str(), arguments.clients, all.size(), failures.load(),
        double(all.size()) / took, at(0.5), at(0.99));
    return failures == 0 ? 0 : 1;
}
