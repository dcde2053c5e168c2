// SPDX-License-Identifier: Apache-2.0
// deps: ty_base ty_sys ty_http ty_aws
// Log lines all the way: a program writes N lines as fast as it can, a client reads them back
// through GetLogEvents. Then a slow program stamps its lines with the clock, and the client
// measures their age. Usage: bench_log_pipeline ENDPOINT ACCESS_KEY SECRET_KEY LINES. Prints one
// line of JSON.
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
    std::string call(const std::string& target, const std::string& service, const Json& input) {
        const std::string body = dump_json(input);
        http::ClientRequest request{.method = "POST", .target = "/", .body = body};
        request.headers.add("X-Amz-Target", target);
        request.headers.add("Content-Type", "application/x-amz-json-1.1");
        aws::sign(request, url_.host + ":" + std::to_string(url_.port), keys_, "us-east-1", service,
                  clock_.now(), sha256_hex(body));
        auto response = client_.send(request, Deadline::in(seconds(60)));
        if (response.status == 200) return std::move(response.body);
        if (response.body.find("ResourceNotFoundException") != std::string::npos) return {};
        throw_error(Code::internal, "", "{}: {}", target, response.body);
    }
    void start(const std::string& name, const std::string& program) {
        call("SageMaker.CreateTrainingJob", "sagemaker",
             {{"TrainingJobName", name},
              {"AlgorithmSpecification",
               {{"TrainingImage", "trainyard/host"},
                {"TrainingInputMode", "File"},
                {"ContainerEntrypoint", {"/bin/sh", "-c", program}}}},
              {"RoleArn", "arn:aws:iam::000000000000:role/TrainyardExecutionRole"},
              {"OutputDataConfig", {{"S3OutputPath", "s3://bench/out"}}},
              {"ResourceConfig",
               {{"InstanceType", "ml.m5.large"}, {"InstanceCount", 1}, {"VolumeSizeInGB", 10}}},
              {"StoppingCondition", {{"MaxRuntimeInSeconds", 600}}}});
    }
    std::string stream_of(const std::string& name) {
        const Deadline by = Deadline::in(seconds(30));
        while (!by.passed()) {
            const std::string answer = call("Logs_20140328.DescribeLogStreams", "logs",
                                            {{"logGroupName", "/aws/sagemaker/TrainingJobs"},
                                             {"logStreamNamePrefix", name + "/"}});
            if (!answer.empty()) {
                const Json streams = parse_json(answer).at("logStreams");
                if (!streams.empty()) return streams.at(0).at("logStreamName").get<std::string>();
            }
            sys::pause(Deadline::in(milliseconds(5)), {});
        }
        throw_error(Code::timed_out, "", "job {} made no log stream", name);
    }
    std::string events(const std::string& stream, const std::string& token) {
        Json input = {{"logGroupName", "/aws/sagemaker/TrainingJobs"},
                      {"logStreamName", stream},
                      {"startFromHead", true},
                      {"limit", 10000}};
        if (!token.empty()) input["nextToken"] = token;
        return call("Logs_20140328.GetLogEvents", "logs", input);
    }

private:
    http::Url url_;
    aws::Credentials keys_;
    http::Client client_;
    SystemClock clock_;
};

/// Counting without a JSON document: the reader must not be what is measured.
std::size_t count(std::string_view text, std::string_view what) {
    std::size_t n = 0;
    for (auto at = text.find(what); at != std::string_view::npos;
         at = text.find(what, at + what.size()))
        ++n;
    return n;
}

std::string token_of(std::string_view answer) {
    const auto at = answer.find("\"nextForwardToken\":\"");
    const auto start = at + 20;
    return std::string(answer.substr(start, answer.find('"', start) - start));
}

double throughput(Api& api, const std::string& name, long long lines) {
    SystemClock clock;
    api.start(
        name,
        format("exec seq -f 'epoch 1 step %.0f Train Loss: 0.4321, Accuracy: 0.8765 images/s' {}",
               lines));
    const std::string stream = api.stream_of(name);
    const auto begin = clock.monotonic();
    std::string token;
    for (long long seen = 0; seen < lines;) {
        const std::string answer = api.events(stream, token);
        seen += (long long)count(answer, "Train Loss");
        token = token_of(answer);
    }
    return double(lines) / std::chrono::duration<double>(clock.monotonic() - begin).count();
}

double p99_latency(Api& api, const std::string& name) {
    SystemClock clock;
    api.start(name, "i=0; while [ $i -lt 400 ]; do date +stamp:%s%N; i=$((i+1)); done");
    const std::string stream = api.stream_of(name);
    std::vector<double> ages;
    std::string token;
    while (ages.size() < 400) {
        const std::string answer = api.events(stream, token);
        const double now = double(to_epoch_millis(clock.now()));
        for (auto at = answer.find("stamp:"); at != std::string::npos;
             at = answer.find("stamp:", at + 1))
            ages.push_back(
                now -
                double(parse_int(std::string_view(answer).substr(at + 6, 19)).value_or(0)) / 1e6);
        token = token_of(answer);
        sys::pause(Deadline::in(milliseconds(5)), {});
    }
    std::ranges::sort(ages);
    return ages[std::size_t(0.99 * double(ages.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) return std::fprintf(stderr, "usage: see the source\n"), 2;
    try {
        Api api(http::parse_url(argv[1]), {.access_key = argv[2], .secret_key = argv[3]});
        SystemIds ids;
        const std::string prefix = "logs-" + ids.token(6);
        const double rate = throughput(api, prefix + "-rate", std::atoll(argv[4]));
        const double p99 = p99_latency(api, prefix + "-age");
        std::printf("{\"lines_per_second\":%.0f,\"p99_ms\":%.1f}\n", rate, p99);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
