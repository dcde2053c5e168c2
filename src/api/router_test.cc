// SPDX-License-Identifier: Apache-2.0
// The router with every service behind it: identity, roles, refusals, and the admin face.
#include "api/admin/admin.h"
#include "api/coverage.h"
#include "api/testing.h"
#include "aws/xml_scan.h"

#include <doctest/doctest.h>

#include <set>

using namespace ty;
using namespace ty::api;
using testing::Ask;
using testing::Desk;

namespace {

bool holds(const http::Response& response, std::string_view text) {
    return response.body.find(text) != std::string::npos;
}
std::string element(const http::Response& response, std::string_view name) {
    return aws::find_element(response.body, name).value_or("(absent)");
}

}  // namespace

TEST_CASE_FIXTURE(Desk, "the caller is an assumed role, in the partition of the region") {
    http::Response response = form("Action=GetCallerIdentity&Version=2011-06-15", "sts");
    CHECK(response.status == 200);
    CHECK(element(response, "Arn") ==
          "arn:aws:sts::000000000000:assumed-role/TrainyardExecutionRole/trainyard");
    CHECK(element(response, "Account") == "000000000000");
    CHECK(element(response, "RequestId") == response.headers.get("x-amzn-requestid"));
    response = form("Action=GetCallerIdentity&Version=2011-06-15", "sts", "cn-north-1");
    CHECK(element(response, "Arn").starts_with("arn:aws-cn:sts::"));
}

TEST_CASE_FIXTURE(Desk, "keys of an assumed role work and end") {
    const http::Response response = form(
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A000000000000%3Arole%"
        "2Fpath%2FMyRole&RoleSessionName=me",
        "sts");
    REQUIRE(response.status == 200);
    CHECK(element(response, "Arn") == "arn:aws:sts::000000000000:assumed-role/MyRole/me");
    const aws::Credentials keys{element(response, "AccessKeyId"),
                                element(response, "SecretAccessKey"),
                                element(response, "SessionToken")};
    const Ask ask{.service = "sts",
                  .body = "Action=GetSessionToken&Version=2011-06-15",
                  .headers = {{"Content-Type", "application/x-www-form-urlencoded"}}};
    CHECK(send(ask, keys).status == 200);
    Ask greedy = ask;
    greedy.body += "&DurationSeconds=7200";
    CHECK(send(greedy).status == 200);
    CHECK(element(send(greedy, keys), "Code") == "ValidationError");
    clock.advance(std::chrono::hours(1));
    const http::Response late = send(ask, keys);
    CHECK(late.status == 403);
    CHECK(element(late, "Code") == "ExpiredToken");
}

TEST_CASE_FIXTURE(Desk, "STS names what it does not do and what is wrong with a call") {
    const http::Response response = form("Action=GetAccessKeyInfo&Version=2011-06-15", "sts");
    CHECK(response.status == 400);
    CHECK(element(response, "Code") == "NotImplemented");
    CHECK(element(response, "Message").find("GetAccessKeyInfo") != std::string::npos);
    CHECK(element(form("Action=AssumeRole&Version=2011-06-15", "sts"), "Code") ==
          "ValidationError");
    CHECK(element(form("Version=2011-06-15", "sts"), "Code") == "InvalidAction");
}

TEST_CASE_FIXTURE(Desk, "every role exists and trusts SageMaker") {
    const http::Response response =
        form("Action=GetRole&Version=2010-05-08&RoleName=AnyRole", "iam");
    CHECK(element(response, "Arn") == "arn:aws:iam::000000000000:role/AnyRole");
    const auto trust = percent_decode(element(response, "AssumeRolePolicyDocument"));
    REQUIRE(trust.has_value());
    CHECK(trust->find("sagemaker.amazonaws.com") != std::string::npos);
    CHECK(element(form("Action=GetRole&Version=2010-05-08&RoleName=a/b", "iam"), "Code") ==
          "ValidationError");
    CHECK(element(form("Action=CreateRole&Version=2010-05-08&RoleName=r&AssumeRolePolicyDocument={",
                       "iam"),
                  "Code") == "MalformedPolicyDocument");
    CHECK(
        element(
            form("Action=CreateRole&Version=2010-05-08&RoleName=r&AssumeRolePolicyDocument=%7B%7D",
                 "iam"),
            "RoleName") == "r");
    CHECK(
        form("Action=AttachRolePolicy&Version=2010-05-08&RoleName=r&PolicyArn=arn", "iam").status ==
        200);
    CHECK(element(form("Action=DeleteUser&Version=2010-05-08", "iam"), "Code") == "NotImplemented");
}

TEST_CASE_FIXTURE(Desk, "every simulated action is allowed") {
    const http::Response response = form(
        "Action=SimulatePrincipalPolicy&Version=2010-05-08&PolicySourceArn=arn&ActionNames.member."
        "1=s3%3AGetObject&ActionNames."
        "member.2=sagemaker%3ACreateTrainingJob",
        "iam");
    CHECK(holds(response,
                "<EvalActionName>s3:GetObject</EvalActionName><EvalResourceName>*</"
                "EvalResourceName><EvalDecision>allowed</EvalDecision>"));
    CHECK(holds(response, "<EvalActionName>sagemaker:CreateTrainingJob</EvalActionName>"));
}

TEST_CASE_FIXTURE(Desk, "EC2 and ECR answer in their own forms") {
    CHECK(holds(form("Action=DescribeVpcs&Version=2016-11-15", "ec2"), "<vpcSet/>"));
    const http::Response refused = form("Action=RunInstances&Version=2016-11-15", "ec2");
    CHECK(refused.status == 400);
    CHECK(holds(refused, "<Response><Errors><Error><Code>UnsupportedOperation</Code>"));
    const std::string ecr = "AmazonEC2ContainerRegistry_V20150921.";
    CHECK(holds(json(ecr + "CreateRepository", R"({"repositoryName":"my-image"})", "ecr"),
                "000000000000.dkr.ecr.us-east-1.amazonaws.com/my-image"));
    CHECK(holds(json(ecr + "CreateRepository", R"({"repositoryName":"My Image"})", "ecr"),
                "InvalidParameterException"));
    CHECK(holds(json(ecr + "DescribeRepositories", "[]", "ecr"), "SerializationException"));
    CHECK(holds(json(ecr + "DescribeRepositories", "{", "ecr"), "SerializationException"));
    CHECK(holds(json(ecr + "DescribeImages", R"({"repositoryName":"x1"})", "ecr"),
                "ImageNotFoundException"));
    CHECK(holds(json(ecr + "PutImage", "{}", "ecr"), "PutImage"));
}

TEST_CASE_FIXTURE(Desk, "who is not known is refused in the words of the service") {
    const aws::Credentials stranger{"AKIASTRANGER", "x", ""}, wrong{"AKIAROOT", "wrong", ""};
    const Ask json_ask{.body = "{}", .headers = {{"X-Amz-Target", "SageMaker.ListTrainingJobs"}}};
    CHECK(holds(send(json_ask, stranger), "UnrecognizedClientException"));
    CHECK(holds(send(json_ask, wrong), "InvalidSignatureException"));
    const Ask form_ask{.service = "sts",
                       .body = "Action=GetCallerIdentity&Version=2011-06-15",
                       .headers = {{"Content-Type", "application/x-www-form-urlencoded"}}};
    CHECK(element(send(form_ask, stranger), "Code") == "InvalidClientTokenId");
    CHECK(send(form_ask, wrong).status == 403);
    const Ask s3_ask{.method = "GET", .target = "/bucket/key", .service = "s3"};
    CHECK(element(send(s3_ask, stranger), "Code") == "InvalidAccessKeyId");
    CHECK(element(send(s3_ask, wrong), "Code") == "SignatureDoesNotMatch");
    const http::Response head =
        send({.method = "HEAD", .target = "/bucket/key", .service = "s3"}, wrong);
    CHECK(head.status == 403);
    CHECK(head.body.empty());
    const http::Response anonymous =
        send({.method = "GET", .target = "/bucket/key", .unsigned_request = true});
    CHECK(anonymous.status == 403);
    CHECK(element(anonymous, "Code") == "AccessDenied");
    CHECK(anonymous.headers.contains("x-amz-request-id"));
    CHECK(anonymous.headers.contains("x-amz-id-2"));
}

TEST_CASE_FIXTURE(Desk, "a body that was not signed is refused") {
    http::ClientRequest client;
    client.method = "POST";
    client.headers.add("X-Amz-Target", "SageMaker.ListTrainingJobs");
    aws::sign(client, "h", root, "us-east-1", "sagemaker", clock.now(), sha256_hex("{}"));
    http::Request request;
    request.method = "POST";
    request.path = "/";
    for (const auto& [name, value] : client.headers) request.headers.add(name, value);
    request.headers.set("Host", "h");
    testing::TextBody body("{\"MaxResults\":1}");
    request.body = &body;
    CHECK(holds(handler(request), "InvalidSignatureException"));
}

TEST_CASE_FIXTURE(Desk, "services and operations nobody serves are named") {
    const http::Response kms = json("TrentService.Encrypt", "{}", "kms");
    CHECK(kms.status == 400);
    CHECK(holds(kms, "UnknownOperationException"));
    CHECK(holds(kms, "\\\"kms\\\""));
    const http::Response lambda =
        send({.method = "GET", .target = "/2015-03-31/functions/", .service = "lambda"});
    CHECK(lambda.status == 400);
    CHECK(holds(lambda, "lambda"));
    const http::Response runtime =
        send({.target = "/endpoints/e/invocations", .service = "sagemaker", .body = "{}"});
    CHECK(holds(runtime, "/endpoints/e/invocations"));
    const http::Response sns = form("Action=Publish&Version=2010-03-31", "sns");
    CHECK(sns.status == 400);
    CHECK(holds(sns, "&quot;sns&quot;"));
}

TEST_CASE_FIXTURE(Desk, "oversize bodies and strange regions are refused") {
    services.settings.json_body_limit = Bytes(1000);
    const http::Response big = json("SageMaker.ListTrainingJobs", std::string(2000, ' '));
    CHECK(big.status == 413);
    CHECK(holds(big, "RequestEntityTooLarge"));
    CHECK(holds(send({.region = "US East",
                      .body = "{}",
                      .headers = {{"X-Amz-Target", "SageMaker.ListTrainingJobs"}}}),
                "no region name"));
}

TEST_CASE_FIXTURE(Desk, "health and metrics are open and count what happened") {
    const http::Response health =
        send({.method = "GET", .target = "/healthz", .unsigned_request = true});
    CHECK(health.status == 200);
    CHECK(health.headers.contains("x-amzn-requestid"));
    form("Action=GetCallerIdentity&Version=2011-06-15", "sts");
    clock.advance(seconds(90));
    const http::Response response =
        send({.method = "GET", .target = "/metrics", .unsigned_request = true});
    CHECK(holds(response, "trainyard_requests_total{service=\"sts\",status=\"200\"} 1\n"));
    CHECK(holds(response, "trainyard_uptime_seconds 90.000\n"));
    CHECK(holds(response, "trainyard_jobs_finished_total{state=\"Failed\"} 0\n"));
    CHECK(send({.method = "HEAD", .target = "/metrics", .unsigned_request = true}).head_only);
}

TEST_CASE("every coverage row is complete and unique") {
    std::set<std::string> seen;
    for (const auto& list : {sts_coverage(), iam_coverage(), ecr_coverage(), ec2_coverage()}) {
        CHECK_FALSE(list.empty());
        for (const OperationCoverage& row : list) {
            CHECK(seen.insert(row.service + '.' + row.operation).second);
            CHECK(std::set<std::string>{"full", "partial", "accepted", "refused"}.contains(
                row.state));
        }
    }
}
