// SPDX-License-Identifier: Apache-2.0
// deps: ty_http
// Requests per second of http::Server with http::Client beside it on the same machine.
//
//   http_rate [connections] [seconds]
#include "base/format.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/http.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace ty;

int main(int argc, char** argv) {
    const auto number = [argc, argv](int at, long long otherwise) {
        return at < argc ? parse_int(argv[at]).value_or(otherwise) : otherwise;
    };
    const long long connections = number(1, 8);
    const seconds duration(number(2, 5));

    http::Server server(sys::Listener::tcp("127.0.0.1", 0), [](http::Request&) {
        http::Response response;
        response.headers.add("Content-Type", "application/json");
        response.body =
            R"({"TrainingJobArn":"arn:aws:sagemaker:us-east-1:000000000000:training-job/a"})";
        return response;
    });
    const http::Url url = http::parse_url(format("http://127.0.0.1:{}", server.port()));
    std::atomic<long long> total = 0;
    const Deadline by = Deadline::in(duration);
    {
        TaskGroup clients;
        for (long long i = 0; i < connections; ++i) {
            clients.start("client", [&](const std::stop_token&) {
                http::Client client(url);
                http::ClientRequest request;
                request.method = "POST";
                request.headers.add("Content-Type", "application/x-amz-json-1.1");
                request.headers.add("X-Amz-Target", "SageMaker.DescribeTrainingJob");
                request.body = R"({"TrainingJobName":"a"})";
                long long count = 0;
                while (!by.passed()) {
                    if (client.send(request, Deadline::in(seconds(10))).status != 200) std::abort();
                    ++count;
                }
                total += count;
            });
        }
    }
    std::printf("%lld connections: %.0f requests/s\n", connections,
                static_cast<double>(total.load()) / static_cast<double>(duration.count()));
    return 0;
}
