// SPDX-License-Identifier: Apache-2.0
#include "api/render.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api;

namespace {
const Failure kFailure{"NoSuchKey", 404, "a <b> & \"c\"", false};
}

TEST_CASE("one failure in every protocol's form") {
    const ErrorContext context{
        .request_id = "r-1", .path = "/bucket/a%20key", .xml_namespace = "urn:x"};
    CHECK(render_failure(Protocol::json_1_1, kFailure, context).body ==
          R"({"__type":"NoSuchKey","message":"a <b> & \"c\""})");
    CHECK(render_failure(Protocol::json_1_1, kFailure, context).headers.get("content-type") ==
          "application/x-amz-json-1.1");
    CHECK(render_failure(Protocol::json_1_0, kFailure, context).headers.get("content-type") ==
          "application/x-amz-json-1.0");
    CHECK(render_failure(Protocol::rest_json, kFailure, context).headers.get("x-amzn-errortype") ==
          "NoSuchKey");
    CHECK(render_failure(Protocol::query, kFailure, context).body ==
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ErrorResponse "
          "xmlns=\"urn:x\"><Error><Type>Sender</Type><Code>NoSuchKey</Code>"
          "<Message>a &lt;b&gt; &amp; "
          "&quot;c&quot;</Message></Error><RequestId>r-1</RequestId></ErrorResponse>");
    CHECK(render_failure(Protocol::ec2, kFailure, context)
              .body.find("<Errors><Error><Code>NoSuchKey</Code>") != std::string::npos);
    const http::Response s3 = render_failure(Protocol::rest_xml, kFailure, context);
    CHECK(s3.status == 404);
    CHECK(s3.body.find("<Key>a key</Key><BucketName>bucket</BucketName><Resource>/bucket/a "
                       "key</Resource><RequestId>r-1</RequestId>") != std::string::npos);
    const http::Response cbor = render_failure(Protocol::cbor, kFailure, context);
    CHECK(cbor.headers.get("smithy-protocol") == "rpc-v2-cbor");
    CHECK(cbor.body.find("NoSuchKey") != std::string::npos);
}

TEST_CASE("answers to HEAD carry no body, query mode names the code in a header") {
    CHECK(render_failure(Protocol::rest_xml, kFailure, {.request_id = "r", .head = true})
              .body.empty());
    const http::Response response =
        render_failure(Protocol::json_1_0, kFailure, {.request_id = "r", .query_mode = true});
    CHECK(response.headers.get("x-amzn-query-error") == "NoSuchKey;Sender");
    CHECK_FALSE(render_failure(Protocol::json_1_0, kFailure, {.request_id = "r"})
                    .headers.contains("x-amzn-query-error"));
}

TEST_CASE("an internal error tells the client the request id and nothing else") {
    const Error error(Code::internal, "", "sqlite: secret detail");
    const http::Response response =
        render_error(Protocol::json_1_1, "sagemaker", error, {.request_id = "r-7"});
    CHECK(response.status == 500);
    CHECK(response.body.find("secret") == std::string::npos);
    CHECK(response.body.find("r-7") != std::string::npos);
    CHECK(response.body.find("InternalFailure") != std::string::npos);
}

TEST_CASE("query answers come in AWS's envelopes") {
    const http::Response full = query_reply("GetUser", "urn:iam", "r-1",
                                            [](aws::XmlWriter& xml) { xml.element("A", "1"); });
    CHECK(
        full.body ==
        "<GetUserResponse "
        "xmlns=\"urn:iam\"><GetUserResult><A>1</A></GetUserResult><ResponseMetadata><RequestId>r-1"
        "</RequestId></ResponseMetadata></GetUserResponse>");
    CHECK(query_reply("PutRolePolicy", "urn:iam", "r", {}).body.find("Result>") ==
          std::string::npos);
    CHECK(ec2_reply("DescribeVpcs", "r-2", {}).body.find("<requestId>r-2</requestId>") !=
          std::string::npos);
}
