// SPDX-License-Identifier: Apache-2.0
// Signature Version 4 against AWS's published examples: the test suite of the general specification
// and the worked examples of the S3 reference, then what an attacker or a wrong clock would try.
#include "aws/aws.h"
#include "aws/signature.h"
#include "base/hash.h"
#include "base/text.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::aws;

namespace {

const Credentials kSuite{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
const Credentials kS3{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

Instant at(std::string_view text) {
    return parse_amz_date(text).value();
}

KeyLookup only(const Credentials& credentials) {
    return [credentials](const std::string& key) -> std::optional<Credentials> {
        if (key == credentials.access_key) return credentials;
        return std::nullopt;
    };
}

http::Request make(std::string method, std::string_view target,
                   std::initializer_list<std::pair<const char*, const char*>> headers) {
    http::Request request;
    request.method = std::move(method);
    const auto mark = std::min(target.find('?'), target.size());
    request.path = target.substr(0, mark);
    request.query = mark < target.size() ? target.substr(mark + 1) : "";
    for (const auto& [name, value] : headers) request.headers.add(name, value);
    return request;
}

void authorize(http::Request& request, std::string_view scope, std::string_view headers,
               std::string_view signature) {
    request.headers.add("Authorization",
                        format("AWS4-HMAC-SHA256 Credential={}, SignedHeaders={}, Signature={}",
                               scope, headers, signature));
}

/// The reason verify() gives for refusing; "" when it accepts.
std::string refusal(const http::Request& request, std::string_view body_hash, const KeyLookup& keys,
                    Instant now) {
    try {
        verify(request, body_hash, keys, now);
    } catch (const Error& error) {
        return error.reason();
    }
    return "";
}

}  // namespace

TEST_CASE("the general test suite's requests verify") {
    struct Row {
        const char *method, *target, *signed_headers, *signature, *body;
        std::initializer_list<std::pair<const char*, const char*>> headers;
    };
    const Row rows[] = {
        {"GET",
         "/",
         "host;x-amz-date",
         "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
         "",
         {}},
        {"GET",
         "/?Param2=value2&Param1=value1",
         "host;x-amz-date",
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
         "",
         {}},
        {"GET",
         "/\xE1\x88\xB4",
         "host;x-amz-date",
         "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
         "",
         {}},
        {"GET",
         "/example/..",
         "host;x-amz-date",
         "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
         "",
         {}},
        {"GET",
         "//",
         "host;x-amz-date",
         "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
         "",
         {}},
        {"GET",
         "/example space/",
         "host;x-amz-date",
         "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
         "",
         {}},
        {"POST",
         "/",
         "host;x-amz-date",
         "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
         "",
         {}},
        {"GET",
         "/",
         "host;my-header1;x-amz-date",
         "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
         "",
         {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}}},
        {"GET",
         "/",
         "host;my-header1;my-header2;x-amz-date",
         "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
         "",
         {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}},
        {"POST",
         "/",
         "content-type;host;x-amz-date",
         "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
         "Param1=value1",
         {{"Content-Type", "application/x-www-form-urlencoded"}}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.signature);
        http::Request request =
            make(row.method, row.target,
                 {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}});
        for (const auto& [name, value] : row.headers) request.headers.add(name, value);
        authorize(request, "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request",
                  row.signed_headers, row.signature);
        CHECK(refusal(request, sha256_hex(row.body), only(kSuite), at("20150830T123600Z")) == "");
    }
}

TEST_CASE("the S3 reference's worked examples verify") {
    const Instant now = at("20130524T000000Z");
    const char* scope = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
    const char* empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    http::Request get = make("GET", "/test.txt",
                             {{"Host", "examplebucket.s3.amazonaws.com"},
                              {"Range", "bytes=0-9"},
                              {"x-amz-content-sha256", empty},
                              {"x-amz-date", "20130524T000000Z"}});
    authorize(get, scope, "host;range;x-amz-content-sha256;x-amz-date",
              "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    CHECK(refusal(get, "", only(kS3), now) == "");

    http::Request put =
        make("PUT", "/test%24file.text",
             {{"Host", "examplebucket.s3.amazonaws.com"},
              {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
              {"x-amz-date", "20130524T000000Z"},
              {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
              {"x-amz-content-sha256",
               "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}});
    authorize(put, scope, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
              "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    CHECK(refusal(put, "", only(kS3), now) == "");
    // The same key with the dollar sign unescaped on the wire.
    put.path = "/test$file.text";
    CHECK(refusal(put, "", only(kS3), now) == "");
    put.path = "/test$file.texx";
    CHECK(refusal(put, "", only(kS3), now) == "SignatureDoesNotMatch");

    http::Request lifecycle = make("GET", "/?lifecycle",
                                   {{"Host", "examplebucket.s3.amazonaws.com"},
                                    {"x-amz-content-sha256", empty},
                                    {"x-amz-date", "20130524T000000Z"}});
    authorize(lifecycle, scope, "host;x-amz-content-sha256;x-amz-date",
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    CHECK(refusal(lifecycle, "", only(kS3), now) == "");

    http::Request list = make("GET", "/?max-keys=2&prefix=J",
                              {{"Host", "examplebucket.s3.amazonaws.com"},
                               {"x-amz-content-sha256", empty},
                               {"x-amz-date", "20130524T000000Z"}});
    authorize(list, scope, "host;x-amz-content-sha256;x-amz-date",
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    CHECK(refusal(list, "", only(kS3), now) == "");
}

TEST_CASE("the S3 reference's presigned URL verifies until it expires") {
    const http::Request request =
        make("GET",
             "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%"
             "2F20130524%2Fus-east-1%2Fs3%2F"
             "aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders="
             "host&X-Amz-Signature="
             "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
             {{"Host", "examplebucket.s3.amazonaws.com"}});
    CHECK(refusal(request, "", only(kS3), at("20130524T000000Z")) == "");
    CHECK(refusal(request, "", only(kS3), at("20130524T235959Z")) == "");
    CHECK(find_scope(request)->presigned);
    CHECK_THROWS_WITH_AS(verify(request, "", only(kS3), at("20130525T000001Z")),
                         "Request has expired (signed 20130524T000000Z, valid for 86400 s, server "
                         "time 20130525T000001Z)",
                         Error);
    CHECK(refusal(request, "", only(kS3), at("20130523T230000Z")) == "AccessDenied");
    // An unsigned payload hash beside a presigned URL proves nothing and changes nothing.
    http::Request extra = request;
    extra.headers.add("x-amz-content-sha256", std::string(64, 'a'));
    CHECK(refusal(extra, "", only(kS3), at("20130524T000000Z")) == "");
    extra.headers.add("x-amz-meta-evil", "1");
    CHECK(refusal(extra, "", only(kS3), at("20130524T000000Z")) == "AccessDenied");
}

namespace {

/// A request signed by our own client half.
http::Request signed_request(const std::string& service, const Credentials& credentials,
                             Instant now, std::string_view body_hash,
                             std::string target = "/b/k%20x?list-type=2&prefix=a%2Bb") {
    http::ClientRequest client;
    client.method = "PUT";
    client.target = std::move(target);
    client.headers.add("Content-Type", "text/plain");
    client.headers.add("x-amz-meta-a", "b");
    sign(client, "127.0.0.1:4545", credentials, "eu-west-9", service, now, body_hash);
    http::Request request = make(client.method, client.target, {{"Host", "127.0.0.1:4545"}});
    for (const auto& [name, value] : client.headers) request.headers.add(name, value);
    return request;
}

}  // namespace

TEST_CASE("what we sign we verify, for S3 and for others, with and without a token") {
    const Instant now = at("20260131T120000Z");
    const Credentials session{"ASIAX", "secret", "token+/="};
    for (const char* service : {"s3", "sagemaker", "sts", "anything"}) {
        CAPTURE(service);
        const std::string hash = sha256_hex("body");
        CHECK(refusal(signed_request(service, kSuite, now, hash), hash, only(kSuite), now) == "");
        const http::Request request = signed_request(service, session, now, hash);
        CHECK(refusal(request, hash, only(session), now) == "");
        const Verified verified = verify(request, hash, only(session), now);
        CHECK(verified.scope.region == "eu-west-9");
        CHECK(verified.scope.service == service);
        CHECK(verified.payload_hash == hash);
        CHECK(verified.signing_key.size() == 32);
    }
}

TEST_CASE("any change to a signed request is noticed") {
    const Instant now = at("20260131T120000Z");
    const std::string hash = sha256_hex("body");
    const http::Request good = signed_request("s3", kSuite, now, hash);
    REQUIRE(refusal(good, "", only(kSuite), now) == "");

    http::Request bad = good;
    bad.method = "DELETE";
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.path = "/b/other";
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.query = "list-type=2&prefix=a%2Bc";
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.query += "&max-keys=1";
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.headers.set("x-amz-meta-a", "c");
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.headers.set("Host", "127.0.0.1:4546");
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.headers.set("x-amz-content-sha256", sha256_hex("other"));
    CHECK(refusal(bad, "", only(kSuite), now) == "SignatureDoesNotMatch");
    bad = good;
    bad.headers.add("x-amz-copy-source", "/b/secret");
    CHECK(refusal(bad, "", only(kSuite), now) == "AccessDenied");
    CHECK(refusal(good, sha256_hex("other body"), only(kSuite), now) == "SignatureDoesNotMatch");
    CHECK(refusal(good, "", only({"AKIDEXAMPLE", "wrong", ""}), now) == "SignatureDoesNotMatch");
    CHECK(refusal(good, "", only({"SOMEBODY", "wrong", ""}), now) == "InvalidAccessKeyId");
}

TEST_CASE("a session's token must come with its keys; a stray token harms nobody") {
    const Instant now = at("20260131T120000Z");
    const Credentials session{"ASIAX", "secret", "token"};
    CHECK(refusal(signed_request("s3", {"ASIAX", "secret", ""}, now, sha256_hex("")), "",
                  only(session), now) == "InvalidToken");
    CHECK(refusal(signed_request("s3", {"ASIAX", "secret", "other"}, now, sha256_hex("")), "",
                  only(session), now) == "InvalidToken");
    CHECK(refusal(signed_request("s3", {"ASIAX", "secret", "stray"}, now, sha256_hex("")), "",
                  only({"ASIAX", "secret", ""}), now) == "");
}

TEST_CASE("clocks may differ by a quarter of an hour") {
    const Instant now = at("20260131T120000Z");
    const http::Request request = signed_request("s3", kSuite, now, sha256_hex(""));
    CHECK(refusal(request, "", only(kSuite), now + std::chrono::minutes(15)) == "");
    CHECK(refusal(request, "", only(kSuite), now - std::chrono::minutes(15)) == "");
    CHECK(refusal(request, "", only(kSuite), now + std::chrono::minutes(16)) ==
          "RequestTimeTooSkewed");
    CHECK(refusal(request, "", only(kSuite), now - std::chrono::minutes(16)) ==
          "RequestTimeTooSkewed");
}

TEST_CASE("refusals are worded as the service words them") {
    const Instant now = at("20260131T120000Z");
    const http::Request s3 = signed_request("s3", kSuite, now, sha256_hex("")),
                        other = signed_request("sagemaker", kSuite, now, sha256_hex(""));
    const Instant late = now + std::chrono::minutes(20);
    CHECK_THROWS_WITH_AS(
        verify(s3, "", only(kSuite), late),
        "The difference between the request time and the current time is too large. (request "
        "20260131T120000Z, server 20260131T122000Z; correct the clock)",
        Error);
    CHECK_THROWS_WITH_AS(verify(other, sha256_hex(""), only(kSuite), late),
                         "Signature expired: 20260131T120000Z is now earlier than 20260131T120500Z "
                         "(20260131T122000Z - 15 min.)",
                         Error);
    CHECK_THROWS_WITH_AS(
        verify(other, sha256_hex(""), only({"X", "y", ""}), now),
        "The security token included in the request is invalid. (access key \"AKIDEXAMPLE\")",
        Error);
}

TEST_CASE("a plus sign in a query is accepted in both readings") {
    const Instant now = at("20260131T120000Z");
    http::Request request = signed_request("s3", kSuite, now, sha256_hex(""), "/b?prefix=a%20b");
    request.query = "prefix=a+b";
    CHECK(refusal(request, "", only(kSuite), now) == "");
    request = signed_request("s3", kSuite, now, sha256_hex(""), "/b?prefix=a%2Bb");
    request.query = "prefix=a+b";
    CHECK(refusal(request, "", only(kSuite), now) == "");
}

TEST_CASE("unsigned, malformed and foreign authorizations get their own names") {
    const Instant now = at("20150830T123600Z");
    const auto reason = [&](std::string_view authorization) {
        http::Request request =
            make("GET", "/", {{"Host", "h"}, {"X-Amz-Date", "20150830T123600Z"}});
        request.headers.add("Authorization", std::string(authorization));
        return refusal(request, sha256_hex(""), only(kSuite), now);
    };
    CHECK(refusal(make("GET", "/", {{"Host", "h"}}), "", only(kSuite), now) ==
          "MissingAuthenticationToken");
    CHECK(reason("AWS AKID:signature") == "InvalidRequest");
    CHECK(reason("AWS4-ECDSA-P256-SHA256 Credential=a") == "InvalidRequest");
    CHECK(reason("") == "InvalidRequest");
    CHECK(reason("AWS4-HMAC-SHA256") == "AuthorizationHeaderMalformed");
    CHECK(reason("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/2015/us-east-1/s3/aws4_request, "
                 "SignedHeaders=host, Signature=" +
                 std::string(64, 'a')) == "AuthorizationHeaderMalformed");
    CHECK(reason("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request, "
                 "SignedHeaders=host, Signature=zz") == "AuthorizationHeaderMalformed");
    CHECK(reason("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request, "
                 "SignedHeaders=Host;;b, Signature=" +
                 std::string(64, 'a')) == "AuthorizationHeaderMalformed");
    CHECK(reason("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150829/us-east-1/s3/aws4_request, "
                 "SignedHeaders=host, Signature=" +
                 std::string(64, 'a')) == "AuthorizationHeaderMalformed");
    CHECK(reason("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request, "
                 "SignedHeaders=x-amz-date, Signature=" +
                 std::string(64, 'a')) == "AccessDenied");
    CHECK(refusal(make("GET", "/k?X-Amz-Credential=a", {{"Host", "h"}}), "", only(kSuite), now) ==
          "AuthorizationQueryParametersError");
    CHECK(
        refusal(
            make("GET",
                 "/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE/20150830/r/s3/"
                 "aws4_request&X-Amz-Date="
                 "20150830T123600Z&X-Amz-Expires=604801&X-Amz-SignedHeaders=host&X-Amz-Signature=" +
                     std::string(64, 'a'),
                 {{"Host", "h"}}),
            "", only(kSuite), now) == "AuthorizationQueryParametersError");
}

TEST_CASE("S3 wants a payload hash, and a sane one") {
    const Instant now = at("20260131T120000Z");
    http::Request request = signed_request("s3", kSuite, now, sha256_hex(""));
    request.headers.remove("x-amz-content-sha256");
    CHECK(refusal(request, "", only(kSuite), now) == "InvalidRequest");
    CHECK(refusal(signed_request("s3", kSuite, now, "nonsense"), "", only(kSuite), now) ==
          "InvalidArgument");
    CHECK(refusal(signed_request("s3", kSuite, now, "UNSIGNED-PAYLOAD"), "", only(kSuite), now) ==
          "");
}

TEST_CASE("an access key may contain slashes, and the scope is read without verifying") {
    http::Request request = make("GET", "/", {{"Host", "h"}});
    CHECK_FALSE(find_scope(request));
    request.headers.add("Authorization",
                        "AWS4-HMAC-SHA256 "
                        "Credential=a/b/20150830/cn-north-1/monitoring/"
                        "aws4_request,SignedHeaders=host,Signature=x");
    const auto scope = find_scope(request);
    REQUIRE(scope.has_value());
    CHECK(scope->access_key == "a/b");
    CHECK(scope->region == "cn-north-1");
    CHECK(scope->service == "monitoring");
    request.headers.set("Authorization", "Bearer abc");
    CHECK_FALSE(find_scope(request));
}

TEST_CASE("derived keys are remembered per secret and scope") {
    SigningKeys cache;
    const Scope scope{"AKIDEXAMPLE", "20150830", "us-east-1", "iam", false};
    CHECK(to_hex(as_bytes(cache.get(kSuite, scope))) ==
          "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    CHECK(cache.get(kSuite, scope) == derive_signing_key(kSuite.secret_key, scope));
    const Credentials rotated{"AKIDEXAMPLE", "new", ""};
    CHECK(cache.get(rotated, scope) == derive_signing_key("new", scope));
    for (int i = 0; i < 3000; ++i)
        cache.get(kSuite, {"AKIDEXAMPLE", "20150830", "r" + std::to_string(i), "iam", false});
    CHECK(cache.get(kSuite, scope) == derive_signing_key(kSuite.secret_key, scope));
}

TEST_CASE("our presigned URLs verify, with prefix, token and port") {
    const Instant now = at("20260131T120000Z");
    const Credentials session{"ASIAX", "secret", "to/k+en="};
    const std::string url = presign("GET", {"http", "127.0.0.1", 4545, "/x"},
                                    "/b/a%20b?versionId=3", session, "us-east-1", seconds(60), now);
    REQUIRE(url.starts_with("http://127.0.0.1:4545/x/b/a%20b?versionId=3&"));
    http::Request request =
        make("GET", std::string_view(url).substr(std::string_view("http://127.0.0.1:4545").size()),
             {{"Host", "127.0.0.1:4545"}});
    CHECK(refusal(request, "", only(session), now + seconds(60)) == "");
    CHECK(refusal(request, "", only(session), now + seconds(61)) == "AccessDenied");
    request.method = "PUT";
    CHECK(refusal(request, "", only(session), now) == "SignatureDoesNotMatch");
}

TEST_CASE("presigned URLs of the older signature verify as boto3 makes them") {
    const Credentials keys{"AKID", "secret", ""}, session{"AKID", "secret", "to/k+en="};
    const Instant end = at("20260131T120000Z");  // 1769860800
    const http::Request get = make("GET",
                                   "/b/a%20b%2Bc?AWSAccessKeyId=AKID&Signature="
                                   "%2Bmp70bbCScDb1TUCv0k%2F%2BCaeTwQ%3D&Expires=1769860800",
                                   {{"Host", "127.0.0.1:4545"}});
    CHECK(refusal(get, "", only(keys), end) == "");
    CHECK(refusal(get, "", only(keys), end + seconds(1)) == "AccessDenied");
    CHECK(refusal(get, "", only({"OTHER", "secret", ""}), end) == "InvalidAccessKeyId");
    CHECK(refusal(get, "", only({"AKID", "wrong", ""}), end) == "SignatureDoesNotMatch");
    CHECK(refusal(get, "", only(session), end) == "InvalidToken");
    CHECK(verify(get, "", only(keys), end).scope.access_key == "AKID");

    http::Request changed = get;
    changed.path += "x";
    CHECK(refusal(changed, "", only(keys), end) == "SignatureDoesNotMatch");
    changed = get;
    changed.query += "&acl";
    CHECK(refusal(changed, "", only(keys), end) == "SignatureDoesNotMatch");
    changed = get;
    changed.headers.add("x-amz-meta-new", "1");
    CHECK(refusal(changed, "", only(keys), end) == "SignatureDoesNotMatch");
    changed.query = replace_all(get.query, "1769860800", "soon");
    CHECK(refusal(changed, "", only(keys), end) == "AccessDenied");

    const http::Request put =
        make("PUT",
             "/b/k?uploadId=x%2Fy&partNumber=2&AWSAccessKeyId=AKID&Signature="
             "iZI8ECN8aZF8qzJyMNuyJRwGpUI%3D&content-type=text%2Fplain&x-amz-meta-who=me&"
             "Expires=1769860800",
             {{"Host", "127.0.0.1:4545"}, {"Content-Type", "text/plain"}});
    CHECK(refusal(put, "", only(keys), end) == "");
    http::Request other = put;
    other.headers.set("Content-Type", "text/html");
    CHECK(refusal(other, "", only(keys), end) == "SignatureDoesNotMatch");

    const http::Request with_token =
        make("GET",
             "/b/k?response-content-type=a%2Fb&AWSAccessKeyId=AKID&Signature="
             "L3hXc2Uj1eSTbmS10s50tP5qPL8%3D&x-amz-security-token=to%2Fk%2Ben%3D&"
             "Expires=1769860800",
             {{"Host", "127.0.0.1:4545"}});
    CHECK(refusal(with_token, "", only(session), end) == "");
}
