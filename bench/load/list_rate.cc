// SPDX-License-Identifier: Apache-2.0
// deps: ty_base ty_sys ty_http ty_aws
// Latency of one ListTrainingJobs page under every sort order and filter, over many stored jobs.
// Usage: bench_list_rate ENDPOINT ACCESS_KEY SECRET_KEY ROUNDS. Prints one line of JSON.
#include "aws/aws.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
    using namespace ty;
    if (argc < 5) return std::fprintf(stderr, "usage: see the source\n"), 2;
    const http::Url url = http::parse_url(argv[1]);
    const aws::Credentials keys{.access_key = argv[2], .secret_key = argv[3]};
    http::Client client(url);
    SystemClock clock;
    const std::vector<Json> queries = {
        {{"MaxResults", 100}},
        {{"MaxResults", 100}, {"SortBy", "CreationTime"}, {"SortOrder", "Ascending"}},
        {{"MaxResults", 100}, {"SortBy", "Name"}, {"SortOrder", "Descending"}},
        {{"MaxResults", 100}, {"SortBy", "Status"}},
        {{"MaxResults", 100}, {"StatusEquals", "Completed"}},
        {{"MaxResults", 10}, {"NameContains", "99"}},
    };
    std::vector<double> latencies;
    for (int round = 0; round < std::atoi(argv[4]); ++round) {
        Json query = queries[std::size_t(round) % queries.size()];
        for (int page = 0; page < 3; ++page) {
            const std::string body = dump_json(query);
            http::ClientRequest request{.method = "POST", .target = "/", .body = body};
            request.headers.add("X-Amz-Target", "SageMaker.ListTrainingJobs");
            request.headers.add("Content-Type", "application/x-amz-json-1.1");
            aws::sign(request, url.host + ":" + std::to_string(url.port), keys, "us-east-1",
                      "sagemaker", clock.now(), sha256_hex(body));
            const auto start = clock.monotonic();
            const auto response = client.send(request, Deadline::in(seconds(30)));
            latencies.push_back(
                std::chrono::duration<double, std::milli>(clock.monotonic() - start).count());
            const Json answer = parse_json(response.body);
            if (response.status != 200 || answer.at("TrainingJobSummaries").empty())
                return std::fprintf(stderr, "%s\n", response.body.c_str()), 1;
            if (!answer.contains("NextToken")) break;
            query["NextToken"] = answer.at("NextToken");
        }
    }
    std::ranges::sort(latencies);
    const auto at = [&](double share) {
        return latencies[std::size_t(share * double(latencies.size() - 1))];
    };
    std::printf("{\"pages\":%zu,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.2f}\n",
                latencies.size(), at(0.5), at(0.99), at(1.0));
}
