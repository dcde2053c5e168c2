// SPDX-License-Identifier: Apache-2.0
#include "api/route.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api;

namespace {

struct Sent {
    std::string method = "POST", path = "/", query;
    std::vector<std::pair<std::string, std::string>> headers;
};
Route route_of(const Sent& sent, std::string_view own_host = "127.0.0.1") {
    http::Request request;
    request.method = sent.method;
    request.path = sent.path;
    request.query = sent.query;
    for (const auto& [name, value] : sent.headers) request.headers.add(name, value);
    return find_route(request, own_host);
}
std::pair<std::string, std::string> scope(std::string_view service,
                                          std::string_view region = "eu-west-1") {
    return {"Authorization", format("AWS4-HMAC-SHA256 Credential=AK/20260131/{}/{}/aws4_request, "
                                    "SignedHeaders=host, Signature=x",
                                    region, service)};
}
const std::pair<std::string, std::string> kForm{"Content-Type",
                                                "application/x-www-form-urlencoded; charset=utf-8"};

}  // namespace

TEST_CASE("a target header decides before everything else") {
    const Route route = route_of({.headers = {{"X-Amz-Target", "SageMaker.CreateTrainingJob"},
                                              {"Content-Type", "application/x-amz-json-1.1"},
                                              scope("s3")}});
    CHECK(route.service == "sagemaker");
    CHECK(route.operation == "CreateTrainingJob");
    CHECK(route.protocol == Protocol::json_1_1);
    CHECK(route.region == "eu-west-1");
    CHECK(route_of({.headers = {{"X-Amz-Target", "Logs_20140328.GetLogEvents"}}}).service ==
          "logs");
    CHECK(route_of({.headers = {{"X-Amz-Target",
                                 "AmazonEC2ContainerRegistry_V20150921.DescribeImages"}}})
              .service == "ecr");
    const Route metrics =
        route_of({.headers = {{"X-Amz-Target", "GraniteServiceVersion20100801.PutMetricData"},
                              {"Content-Type", "application/x-amz-json-1.0"}}});
    CHECK(metrics.service == "monitoring");
    CHECK(metrics.protocol == Protocol::json_1_0);
    CHECK(route_of({.headers = {{"X-Amz-Target", "Nobody.Op"}}}).service == "Nobody");
    CHECK(route_of({.headers = {{"X-Amz-Target", "nonsense"}}}).operation.empty());
}

TEST_CASE("CBOR calls are known by path and protocol header") {
    const Route route =
        route_of({.path = "/service/GraniteServiceVersion20100801/operation/PutMetricData",
                  .headers = {{"smithy-protocol", "rpc-v2-cbor"}, scope("monitoring")}});
    CHECK(route.service == "monitoring");
    CHECK(route.operation == "PutMetricData");
    CHECK(route.protocol == Protocol::cbor);
    CHECK(route_of({.path = "/service/x/operation/y"}).service == "s3");
}

TEST_CASE("forms go by Version, then by scope") {
    Route route = route_of({.headers = {kForm, scope("sts")}});
    CHECK(route.reads_body);
    add_form(route, "Action=GetCallerIdentity&Version=2011-06-15");
    CHECK(route.service == "sts");
    CHECK(route.operation == "GetCallerIdentity");
    CHECK(route.protocol == Protocol::query);
    route = route_of({.headers = {kForm}});
    add_form(route, "Version=2016-11-15&Action=DescribeVpcs");
    CHECK(route.service == "ec2");
    CHECK(route.protocol == Protocol::ec2);
    route = route_of({.headers = {kForm, scope("monitoring")}});
    add_form(route, "Action=GetMetricStatistics&Version=1999-01-01");
    CHECK(route.service == "monitoring");
    // S3 clients send odd content types too.
    CHECK(route_of({.path = "/b/k", .query = "uploads", .headers = {kForm, scope("s3")}}).service ==
          "s3");
    CHECK(route_of({.headers = {kForm, scope("s3")}}).service == "s3");
    // The presigned form of GetCallerIdentity.
    const Route presigned = route_of({.method = "GET",
                                      .query = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-"
                                               "Credential=AK%2F20260131%2Fus-east-1%2Fsts%2Faws4_"
                                               "request&X-Amz-Signature=x"});
    CHECK(presigned.service == "sts");
    CHECK(presigned.operation == "GetCallerIdentity");
}

TEST_CASE("what is left is S3, in both addressing styles") {
    CHECK(route_of({.method = "GET", .path = "/b/k", .headers = {scope("s3")}}).service == "s3");
    CHECK_FALSE(route_of({.method = "GET", .path = "/b/k", .headers = {scope("s3")}}).reads_body);
    CHECK(route_of({.method = "GET", .path = "/b/k"}).service == "s3");
    CHECK(
        route_of(
            {.method = "GET", .path = "/k", .headers = {{"Host", "b.s3.us-west-2.amazonaws.com"}}})
            .bucket == "b");
    CHECK(
        route_of(
            {.method = "GET", .path = "/k", .headers = {{"Host", "b.s3.us-west-2.amazonaws.com"}}})
            .region == "us-west-2");
    CHECK(
        route_of({.method = "GET", .path = "/k", .headers = {{"Host", "my.bucket.localhost:4545"}}})
            .bucket == "my.bucket");
    CHECK(route_of({.method = "GET", .path = "/k", .headers = {{"Host", "b.train.example:80"}}},
                   "train.example")
              .bucket == "b");
    CHECK(route_of({.method = "GET", .path = "/b/k", .headers = {{"Host", "127.0.0.1:4545"}}})
              .bucket.empty());
    CHECK(route_of({.method = "GET", .path = "/b/k", .headers = {{"Host", "train.example"}}},
                   "train.example")
              .bucket.empty());
    CHECK(route_of({.method = "GET", .path = "/b/k", .headers = {{"Host", "[::1]:4545"}}}, "[::1]")
              .bucket.empty());
}

TEST_CASE("other services keep their name, and hosts speak where no scope does") {
    const Route runtime =
        route_of({.path = "/endpoints/e/invocations", .headers = {scope("sagemaker")}});
    CHECK(runtime.service == "sagemaker");
    CHECK(runtime.protocol == Protocol::rest_json);
    CHECK(route_of({.method = "GET", .path = "/2015-03-31/functions", .headers = {scope("lambda")}})
              .service == "lambda");
    CHECK(route_of({.headers = {kForm, {"Host", "sts.cn-north-1.amazonaws.com.cn"}}}).service ==
          "sts");
    CHECK(route_of({.headers = {kForm, {"Host", "sts.cn-north-1.amazonaws.com.cn"}}}).region ==
          "cn-north-1");
}

TEST_CASE("health, metrics and agents need no AWS signature; buckets of those names have one") {
    CHECK(route_of({.method = "GET", .path = "/healthz"}).face == Route::Face::admin);
    CHECK(route_of({.method = "HEAD", .path = "/metrics"}).face == Route::Face::admin);
    CHECK(route_of({.method = "GET", .path = "/metrics", .headers = {scope("s3")}}).face ==
          Route::Face::aws);
    CHECK(route_of({.method = "PUT", .path = "/metrics"}).face == Route::Face::aws);
    CHECK(route_of({.path = "/agent/v1/sync", .headers = {{"Authorization", "Bearer t"}}}).face ==
          Route::Face::agent);
    CHECK(route_of({.method = "PUT", .path = "/agent/v1/key", .headers = {scope("s3")}}).face ==
          Route::Face::aws);
}

TEST_CASE("Trainyard's own calls are known by their path, unless S3 is asked") {
    for (const char* service : {"trainyard", "sagemaker"}) {
        const Route route = route_of(
            {.method = "GET", .path = "/trainyard/v1/jobs/x/ledger", .headers = {scope(service)}});
        CHECK(route.service == "trainyard");
        CHECK(route.protocol == Protocol::rest_json);
        CHECK(route.region == "eu-west-1");
        CHECK(route.reads_body);
    }
    CHECK(route_of({.path = "/trainyard/v1/ledger"}).service == "trainyard");
    CHECK(
        route_of({.method = "GET", .path = "/trainyard/v1/x", .headers = {scope("s3")}}).service ==
        "s3");
}
