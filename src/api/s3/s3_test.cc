// SPDX-License-Identifier: Apache-2.0
// The S3 face behind the real router: signed requests in, headers and documents out.
#include "api/coverage.h"
#include "api/testing.h"
#include "aws/xml_scan.h"

#include <doctest/doctest.h>

#include <unistd.h>
#include <set>

using namespace ty;
using namespace ty::api;
using testing::Ask;
using testing::Desk;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct S3Desk : Desk {
    http::Response s3(const std::string& method, const std::string& target, std::string body = {},
                      Pairs headers = {}) {
        return send({.method = method,
                     .target = target,
                     .service = "s3",
                     .body = std::move(body),
                     .headers = std::move(headers)});
    }
    http::Response put(const std::string& target, const std::string& body, Pairs headers = {}) {
        return s3("PUT", target, body, std::move(headers));
    }
    http::Response get(const std::string& target, Pairs headers = {}) {
        return s3("GET", target, {}, std::move(headers));
    }
    http::Response head(const std::string& target, Pairs headers = {}) {
        return s3("HEAD", target, {}, std::move(headers));
    }
    S3Desk() { put("/bucket", ""); }
};

std::string element(const http::Response& response, std::string_view name) {
    return aws::find_element(response.body, name).value_or("(absent)");
}
std::string code(const http::Response& response) {
    return fmt::format("{} {}", response.status, element(response, "Code"));
}
std::string header(const http::Response& response, std::string_view name) {
    return std::string(response.headers.get(name, "(absent)"));
}
bool holds(const http::Response& response, std::string_view text) {
    return response.body.find(text) != std::string::npos;
}

/// What the server would send.
std::string bytes_of(const http::Response& response) {
    if (!response.file) return response.body;
    std::string text(response.file->length, '\0');
    const auto n = ::pread(response.file->file.get(), text.data(), text.size(),
                           static_cast<off_t>(response.file->offset));
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
}

std::string base64_digest(HashKind kind, std::string_view text) {
    Hasher hasher(kind);
    hasher.update(text);
    return to_base64(as_bytes(hasher.finish()));
}

}  // namespace

TEST_CASE_FIXTURE(S3Desk, "buckets: made, found, listed, located, deleted") {
    CHECK(put("/bucket", "").status == 200);  // us-east-1 says so of one's own bucket
    const Ask west{.method = "PUT", .target = "/bucket", .service = "s3", .region = "us-west-2"};
    CHECK(code(send(west)) == "409 BucketAlreadyOwnedByYou");
    CHECK(put("/other",
              "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>"
              "</CreateBucketConfiguration>")
              .status == 200);
    CHECK(element(get("/other?location"), "LocationConstraint") == "eu-west-1");
    CHECK(get("/bucket?location").body.find("us-east-1") == std::string::npos);
    CHECK(header(head("/other"), "x-amz-bucket-region") == "eu-west-1");
    CHECK(holds(get("/"), "<Name>bucket</Name>"));
    CHECK(holds(get("/?prefix=o"), "<Name>other</Name>"));
    CHECK_FALSE(holds(get("/?prefix=o"), "<Name>bucket</Name>"));
    CHECK(element(get("/?max-buckets=1"), "ContinuationToken") == "bucket");
    CHECK(code(put("/Bad_Name", "")) == "400 InvalidBucketName");
    CHECK(code(put("/third", "<nonsense")) == "400 MalformedXML");
    CHECK(s3("DELETE", "/other").status == 204);
    CHECK(code(s3("DELETE", "/other")) == "404 NoSuchBucket");
}

TEST_CASE_FIXTURE(S3Desk, "errors of HEAD have no body, the expected owner is checked") {
    const http::Response missing = head("/none");
    CHECK(missing.status == 404);
    CHECK(missing.body.empty());
    CHECK(head("/bucket/none").status == 404);
    CHECK(head("/bucket", {{"x-amz-expected-bucket-owner", "000000000000"}}).status == 200);
    CHECK(head("/bucket", {{"x-amz-expected-bucket-owner", "123456789012"}}).status == 403);
}

TEST_CASE_FIXTURE(S3Desk, "an object comes back with everything that was said of it") {
    const std::string body = "some text";
    const http::Response stored =
        put("/bucket/dir/a%20b%2B%C3%BC", body,
            {{"Content-Type", "text/plain"},
             {"Content-Encoding", "gzip,aws-chunked"},
             {"Cache-Control", "no-cache"},
             {"x-amz-meta-Color", "blue"},
             {"x-amz-server-side-encryption", "aws:kms"},
             {"x-amz-tagging", "a=1&b=2"},
             {"x-amz-checksum-crc32", base64_digest(HashKind::crc32, body)}});
    REQUIRE(stored.status == 200);
    CHECK(header(stored, "x-amz-server-side-encryption") == "aws:kms");
    CHECK(header(stored, "x-amz-checksum-crc32") == base64_digest(HashKind::crc32, body));
    const http::Response found =
        head("/bucket/dir/a%20b+%C3%BC", {{"x-amz-checksum-mode", "ENABLED"}});
    CHECK(found.head_only);
    CHECK(header(found, "Content-Length") == "9");
    CHECK(header(found, "Content-Type") == "text/plain");
    CHECK(header(found, "Content-Encoding") == "gzip");
    CHECK(header(found, "Cache-Control") == "no-cache");
    CHECK(header(found, "x-amz-meta-color") == "blue");
    CHECK(header(found, "x-amz-server-side-encryption") == "aws:kms");
    CHECK(header(found, "x-amz-tagging-count") == "2");
    CHECK(header(found, "x-amz-checksum-type") == "FULL_OBJECT");
    CHECK(header(found, "ETag") == header(stored, "ETag"));
    const http::Response whole = get("/bucket/dir/a%20b%2B%C3%BC?response-content-type=a%2Fb");
    CHECK(bytes_of(whole) == body);
    CHECK(header(whole, "Content-Type") == "a/b");
    CHECK(header(whole, "x-amz-checksum-crc32") == "(absent)");
    CHECK(code(put("/bucket/k", "x",
                   {{"x-amz-server-side-encryption-customer-algorithm", "AES256"}})) ==
          "501 NotImplemented");
    CHECK(code(put("/bucket/k", "x", {{"x-amz-meta-a", std::string(2048, 'x')}})) ==
          "400 MetadataTooLarge");
}

TEST_CASE_FIXTURE(S3Desk, "wrong digests and a forged body are refused, and nothing is kept") {
    CHECK(code(put("/bucket/k", "x", {{"x-amz-checksum-crc32", "AAAAAA=="}})) == "400 BadDigest");
    CHECK(code(put("/bucket/k", "x", {{"x-amz-checksum-crc32", "AAAA"}})) == "400 InvalidRequest");
    CHECK(code(put("/bucket/k", "x", {{"Content-MD5", base64_digest(HashKind::md5, "y")}})) ==
          "400 BadDigest");
    CHECK(code(put("/bucket/k", "x", {{"Content-MD5", "nonsense"}})) == "400 InvalidDigest");
    CHECK(code(put("/bucket/k", "x", {{"x-amz-sdk-checksum-algorithm", "MD4"}})) ==
          "400 InvalidRequest");
    CHECK(code(put("/bucket/k", "x",
                   {{"x-amz-checksum-crc32", base64_digest(HashKind::crc32, "x")},
                    {"x-amz-checksum-sha1", base64_digest(HashKind::sha1, "x")}})) ==
          "400 InvalidRequest");
    CHECK(code(get("/bucket/k")) == "404 NoSuchKey");
    CHECK(code(put("/none/k", "x")) == "404 NoSuchBucket");
    CHECK(code(put("/bucket/" + std::string(1025, 'k'), "x")) == "400 KeyTooLongError");
}

TEST_CASE_FIXTURE(S3Desk, "reads obey ranges and conditions") {
    const std::string etag = header(put("/bucket/k", "0123456789"), "ETag");
    const http::Response part = get("/bucket/k", {{"Range", "bytes=2-4"}, {"If-Match", etag}});
    CHECK(part.status == 206);
    CHECK(header(part, "Content-Range") == "bytes 2-4/10");
    CHECK(bytes_of(part) == "234");
    CHECK(bytes_of(get("/bucket/k", {{"Range", "bytes=-3"}})) == "789");
    CHECK(get("/bucket/k", {{"Range", "bytes=1-2,4-5"}}).status == 200);
    CHECK(code(get("/bucket/k", {{"Range", "bytes=10-"}})) == "416 InvalidRange");
    CHECK(head("/bucket/k", {{"Range", "bytes=2-4"}}).status == 206);
    CHECK(get("/bucket/k", {{"Range", "bytes=2-4"}, {"If-Range", "\"old\""}}).status == 200);

    const std::string now = format_http_date(clock.now());
    const std::string before = format_http_date(clock.now() - seconds(60));
    CHECK(code(get("/bucket/k", {{"If-Match", "\"other\""}})) == "412 PreconditionFailed");
    CHECK(get("/bucket/k", {{"If-Match", "\"other\", " + etag}}).status == 200);
    CHECK(get("/bucket/k", {{"If-None-Match", etag}}).status == 304);
    CHECK(get("/bucket/k", {{"If-None-Match", "*"}}).status == 304);
    CHECK(get("/bucket/k", {{"If-Modified-Since", now}}).status == 304);
    CHECK(get("/bucket/k", {{"If-Modified-Since", before}}).status == 200);
    CHECK(code(get("/bucket/k", {{"If-Unmodified-Since", before}})) == "412 PreconditionFailed");
    CHECK(get("/bucket/k", {{"If-Unmodified-Since", before}, {"If-Match", etag}}).status == 200);
    CHECK(get("/bucket/k", {{"If-Modified-Since", "yesterday"}}).status == 200);
    CHECK(code(get("/bucket/k?versionId=7")) == "404 NoSuchVersion");
    CHECK(code(put("/bucket/k", "x", {{"If-None-Match", "*"}})) == "412 PreconditionFailed");
    CHECK(put("/bucket/k", "x", {{"If-Match", etag}}).status == 200);
}

TEST_CASE_FIXTURE(S3Desk, "listings: both versions, pages, folders, url encoding") {
    for (const char* key : {"a/1", "a/2", "b%20%26", "c", "d/x"})
        put(std::string("/bucket/") + key, "");
    const http::Response v1 = get("/bucket?delimiter=/&max-keys=2&encoding-type=url");
    CHECK(element(v1, "IsTruncated") == "true");
    CHECK(element(v1, "NextMarker") == "b%20%26");
    CHECK(holds(v1, "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>"));
    CHECK(holds(v1, "<Key>b%20%26</Key>"));
    CHECK(holds(v1, "<Owner>"));
    CHECK(element(v1, "EncodingType") == "url");
    const http::Response rest = get("/bucket?delimiter=/&marker=b%20%26");
    CHECK(element(rest, "Key") == "c");
    CHECK(element(rest, "IsTruncated") == "false");
    CHECK(holds(rest, "<Prefix>d/</Prefix>"));

    const http::Response v2 = get("/bucket?list-type=2&max-keys=3");
    CHECK(element(v2, "KeyCount") == "3");
    CHECK(holds(v2, "<Key>b &amp;</Key>"));
    CHECK_FALSE(holds(v2, "<Owner>"));
    const std::string token = percent_encode(element(v2, "NextContinuationToken"));
    const http::Response page =
        get("/bucket?list-type=2&fetch-owner=true&continuation-token=" + token);
    CHECK(element(page, "Key") == "c");
    CHECK(element(page, "KeyCount") == "2");
    CHECK(holds(page, "<Owner>"));
    CHECK(element(get("/bucket?list-type=2&start-after=c"), "Key") == "d/x");
    CHECK(element(get("/bucket?list-type=2&prefix=a/&max-keys=0"), "KeyCount") == "0");

    CHECK(code(get("/bucket?list-type=2&continuation-token=%3F")) == "400 InvalidArgument");
    CHECK(code(get("/bucket?list-type=3")) == "400 InvalidArgument");
    CHECK(code(get("/bucket?max-keys=-1")) == "400 InvalidArgument");
    CHECK(code(get("/bucket?max-keys=many")) == "400 InvalidArgument");
    CHECK(code(get("/bucket?encoding-type=base64")) == "400 InvalidArgument");
    CHECK(code(get("/none?list-type=2")) == "404 NoSuchBucket");
    CHECK(holds(get("/bucket?versions&prefix=c"), "<VersionId>null</VersionId>"));
}

TEST_CASE_FIXTURE(S3Desk, "deleting one and many; the document must be protected") {
    for (const char* key : {"a", "b", "c"}) put(std::string("/bucket/") + key, "x");
    CHECK(s3("DELETE", "/bucket/a").status == 204);
    CHECK(s3("DELETE", "/bucket/a").status == 204);
    const std::string document =
        "<Delete><Object><Key>b</Key></Object><Object><Key>never</Key></Object>"
        "<Object><Key>c</Key><VersionId>7</VersionId></Object></Delete>";
    CHECK(code(s3("POST", "/bucket?delete", document)) == "400 InvalidRequest");
    CHECK(code(s3("POST", "/bucket?delete", document, {{"x-amz-checksum-crc32", "AAAAAA=="}})) ==
          "400 BadDigest");
    CHECK(head("/bucket/b").status == 200);
    const http::Response response = s3("POST", "/bucket?delete", document,
                                       {{"Content-MD5", base64_digest(HashKind::md5, document)}});
    CHECK(response.status == 200);
    CHECK(holds(response, "<Deleted><Key>b</Key></Deleted><Deleted><Key>never</Key></Deleted>"));
    CHECK(element(response, "Code") == "NoSuchVersion");
    CHECK(head("/bucket/b").status == 404);
    CHECK(head("/bucket/c").status == 200);
}

TEST_CASE_FIXTURE(S3Desk,
                  "copies keep or replace what was said, and conditions are of the source") {
    put("/bucket/from%3F", "data", {{"x-amz-meta-a", "1"}, {"Content-Type", "text/csv"}});
    const Pairs source{{"x-amz-copy-source", "/bucket/from%3F"}};
    const auto with = [&](Pairs more) {
        more.insert(more.end(), source.begin(), source.end());
        return more;
    };
    CHECK(element(put("/bucket/to", "", source), "ETag") == "\"8d777f385d3dfec8815d20f7496026dc\"");
    CHECK(header(head("/bucket/to"), "x-amz-meta-a") == "1");
    CHECK(put("/bucket/to", "",
              with({{"x-amz-metadata-directive", "REPLACE"}, {"x-amz-meta-b", "2"}}))
              .status == 200);
    CHECK(header(head("/bucket/to"), "x-amz-meta-a") == "(absent)");
    CHECK(header(head("/bucket/to"), "x-amz-meta-b") == "2");
    CHECK(bytes_of(get("/bucket/to")) == "data");
    CHECK(code(put("/bucket/from%3F", "", source)) == "400 InvalidRequest");
    CHECK(code(put("/bucket/to", "", with({{"x-amz-metadata-directive", "KEEP"}}))) ==
          "400 InvalidArgument");
    CHECK(code(put("/bucket/to", "", with({{"x-amz-copy-source-if-match", "\"x\""}}))) ==
          "412 PreconditionFailed");
    CHECK(code(put("/bucket/to", "", {{"x-amz-copy-source", "bucket/none"}})) == "404 NoSuchKey");
    CHECK(code(put("/bucket/to", "", {{"x-amz-copy-source", "none/k"}})) == "404 NoSuchBucket");
    CHECK(code(put("/bucket/to", "", {{"x-amz-copy-source", "bucket"}})) == "400 InvalidArgument");
}

TEST_CASE_FIXTURE(S3Desk, "an upload in parts from start to finish") {
    const http::Response started =
        s3("POST", "/bucket/big?uploads", "",
           {{"x-amz-checksum-algorithm", "CRC32"}, {"x-amz-server-side-encryption", "aws:kms"}});
    CHECK(header(started, "x-amz-checksum-type") == "COMPOSITE");
    const std::string upload = "uploadId=" + element(started, "UploadId");
    const std::string first(5 << 20, 'a'), second = "end";
    const auto part = [&](int number, const std::string& body) {
        return put(fmt::format("/bucket/big?partNumber={}&{}", number, upload), body);
    };
    const http::Response two = part(2, second), one = part(1, first);
    CHECK(header(one, "x-amz-checksum-crc32") == base64_digest(HashKind::crc32, first));
    CHECK(code(part(0, "x")) == "400 InvalidArgument");
    CHECK(code(put("/bucket/other?partNumber=1&" + upload, "x")) == "404 NoSuchUpload");
    CHECK(code(put("/none/big?partNumber=1&" + upload, "x")) == "404 NoSuchBucket");

    const http::Response listed = get("/bucket/big?max-parts=1&" + upload);
    CHECK(element(listed, "PartNumber") == "1");
    CHECK(element(listed, "NextPartNumberMarker") == "1");
    CHECK(element(get("/bucket/big?part-number-marker=1&" + upload), "PartNumber") == "2");
    CHECK(element(get("/bucket?uploads"), "Key") == "big");
    CHECK(head("/bucket/big").status == 404);

    const auto document = [&](const std::string& second_etag) {
        return fmt::format(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
            header(one, "ETag"), second_etag);
    };
    CHECK(code(s3("POST", "/bucket/big?" + upload, document("\"x\""))) == "400 InvalidPart");
    CHECK(code(s3("POST", "/bucket/big?" + upload, "<x/>")) == "400 MalformedXML");
    const http::Response done = s3("POST", "/bucket/big?" + upload, document(header(two, "ETag")));
    REQUIRE(done.status == 200);
    CHECK(element(done, "ETag").ends_with("-2\""));
    CHECK(element(done, "ChecksumCRC32").ends_with("-2"));
    CHECK(code(s3("POST", "/bucket/big?" + upload, document("x"))) == "404 NoSuchUpload");

    const http::Response found = head("/bucket/big?partNumber=2");
    CHECK(found.status == 206);
    CHECK(header(found, "Content-Length") == "3");
    CHECK(header(found, "x-amz-mp-parts-count") == "2");
    CHECK(header(found, "x-amz-server-side-encryption") == "aws:kms");
    CHECK(bytes_of(get("/bucket/big?partNumber=2")) == "end");
    CHECK(code(get("/bucket/big?partNumber=3")) == "416 InvalidRange");
    const http::Response attributes =
        get("/bucket/big?attributes", {{"x-amz-object-attributes", "ObjectSize,ObjectParts"}});
    CHECK(element(attributes, "ObjectSize") == "5242883");
    CHECK(element(attributes, "PartsCount") == "2");

    const std::string again = "uploadId=" + element(s3("POST", "/bucket/copy?uploads"), "UploadId");
    const http::Response copied = put("/bucket/copy?partNumber=1&" + again, "",
                                      {{"x-amz-copy-source", "bucket/big"},
                                       {"x-amz-copy-source-range", "bytes=5242879-5242882"}});
    CHECK(element(copied, "ETag") == "\"" + to_hex(as_bytes([] {
                                         Hasher md5(HashKind::md5);
                                         md5.update("aend");
                                         return md5.finish();
                                     }())) +
                                         "\"");
    CHECK(code(put("/bucket/copy?partNumber=1&" + again, "",
                   {{"x-amz-copy-source", "bucket/big"},
                    {"x-amz-copy-source-range", "bytes=0-9999999"}})) == "400 InvalidArgument");
    CHECK(s3("DELETE", "/bucket/copy?" + again).status == 204);
    CHECK(code(s3("DELETE", "/bucket/copy?" + again)) == "404 NoSuchUpload");
}

TEST_CASE_FIXTURE(S3Desk, "tags are set, read and deleted") {
    put("/bucket/k", "x");
    CHECK(put("/bucket/k?tagging",
              "<Tagging><TagSet><Tag><Key>a</Key><Value>&lt;1&gt;</Value></Tag></TagSet></Tagging>")
              .status == 200);
    CHECK(holds(get("/bucket/k?tagging"), "<Key>a</Key><Value>&lt;1&gt;</Value>"));
    CHECK(s3("DELETE", "/bucket/k?tagging").status == 204);
    CHECK_FALSE(holds(get("/bucket/k?tagging"), "<Tag>"));
    CHECK(code(get("/bucket/none?tagging")) == "404 NoSuchKey");
}

TEST_CASE_FIXTURE(S3Desk, "settings answer truthfully, others are refused by name") {
    CHECK(holds(get("/bucket?versioning"), "<VersioningConfiguration"));
    CHECK(code(get("/bucket?policy")) == "404 NoSuchBucketPolicy");
    CHECK(element(get("/bucket?acl"), "Permission") == "FULL_CONTROL");
    CHECK(code(get("/none?versioning")) == "404 NoSuchBucket");
    const http::Response refused = put("/bucket?versioning", "<VersioningConfiguration/>");
    CHECK(code(refused) == "501 NotImplemented");
    CHECK(holds(refused, "PutBucketVersioning"));
    CHECK(code(s3("PATCH", "/bucket")) == "405 MethodNotAllowed");
    CHECK(code(get("/bucket/%zz")) == "400 InvalidURI");
}

TEST_CASE("every S3 operation is told of once, and the refused ones say so") {
    std::set<std::string> names;
    for (const OperationCoverage& row : s3_coverage()) {
        CHECK(row.service == "s3");
        CHECK(names.insert(row.operation).second);
        CHECK(std::set<std::string>{"full", "partial", "accepted", "refused"}.contains(row.state));
        if (row.state != "full") CHECK_FALSE(row.note.empty());
    }
    CHECK(names.contains("PutObject"));
}
