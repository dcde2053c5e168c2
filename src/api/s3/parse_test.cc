// SPDX-License-Identifier: Apache-2.0
// The parsers of the S3 face: documents, ranges, copy sources.
#include "api/s3/copy_source.h"
#include "api/s3/headers.h"
#include "api/s3/payload.h"
#include "api/s3/xml_in.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api::s3;

namespace {

template <typename Fn>
std::string reason_of(Fn&& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.reason();
    }
    return "no error";
}

std::string range_text(std::string_view text, std::uint64_t size) {
    try {
        const auto range = parse_range(text, size);
        return range ? fmt::format("{}+{}", range->offset, range->length) : "whole";
    } catch (const Error& error) {
        return error.reason();
    }
}

}  // namespace

TEST_CASE("ranges are cut to the object, and what is not understood is no range") {
    CHECK(range_text("bytes=0-0", 10) == "0+1");
    CHECK(range_text("bytes=2-5", 10) == "2+4");
    CHECK(range_text("bytes=2-", 10) == "2+8");
    CHECK(range_text("bytes=-3", 10) == "7+3");
    CHECK(range_text("bytes=-30", 10) == "0+10");
    CHECK(range_text("bytes=8-1000", 10) == "8+2");
    CHECK(range_text("bytes=9-18446744073709551615", 10) == "9+1");
    CHECK(range_text("bytes=10-", 10) == "InvalidRange");
    CHECK(range_text("bytes=99999999999999999999-", 10) == "InvalidRange");
    CHECK(range_text("bytes=-0", 10) == "InvalidRange");
    CHECK(range_text("bytes=0-", 0) == "InvalidRange");
    CHECK(range_text("bytes=-1", 0) == "InvalidRange");
    for (const char* odd : {"", "bytes=", "bytes=-", "bytes=5-2", "bytes=1-2,4-5", "bytes=a-b",
                            "bytes=+1-2", "items=0-1", "bytes 0-1"})
        CHECK(range_text(odd, 10) == "whole");
}

TEST_CASE("a copy source is bucket and key, encoded, with or without a slash") {
    const CopySource source = parse_copy_source("/b/k%20%3Fx/+y?versionId=null");
    CHECK(source.bucket == "b");
    CHECK(source.key == "k ?x/+y");
    CHECK(parse_copy_source("b/k").key == "k");
    for (const char* bad : {"", "/", "b", "/b/", "//k", "%zz/k", "b/%ff"})
        CHECK(reason_of([&] { parse_copy_source(bad); }) == "InvalidArgument");
    CHECK(reason_of([&] { parse_copy_source("b/k?versionId=7"); }) == "NoSuchVersion");
}

TEST_CASE("documents are read with any namespace prefix, comments and CDATA") {
    CHECK(parse_location_constraint("").empty());
    CHECK(parse_location_constraint("<CreateBucketConfiguration/>").empty());
    CHECK(parse_location_constraint("<?xml version='1.0'?><x:CreateBucketConfiguration xmlns:x='u'>"
                                    "<x:LocationConstraint> eu-west-1 </x:LocationConstraint>"
                                    "</x:CreateBucketConfiguration>") == "eu-west-1");
    const DeleteRequest request = parse_delete(
        "<Delete><Quiet>true</Quiet><Object><Key>a&amp;b<!-- c --><![CDATA[<d>]]></Key></Object>"
        "<Object><Key> </Key><VersionId>null</VersionId></Object></Delete>");
    CHECK(request.quiet);
    REQUIRE(request.entries.size() == 2);
    CHECK(request.entries[0].key == "a&b<d>");
    CHECK(request.entries[1].key == " ");
    const auto parts = parse_completed_parts(
        "<CompleteMultipartUpload><Part><PartNumber>7</PartNumber><ETag>\"ab\"</ETag>"
        "<ChecksumSHA256>x</ChecksumSHA256></Part></CompleteMultipartUpload>");
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].number == 7);
    CHECK(parts[0].etag == "ab");
    CHECK(parts[0].checksums.at("sha256") == "x");
}

TEST_CASE("anything else is MalformedXML") {
    const std::string deep = [] {
        std::string text;
        for (int i = 0; i < 20000; ++i) text += "<a>";
        return text;
    }();
    const std::string bomb =
        "<!DOCTYPE d [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>"
        "<Delete><Object><Key>&b;</Key></Object></Delete>";
    for (const std::string& text :
         {std::string(), std::string("x"), std::string("<Delete>"), std::string("<Other/>"),
          std::string("<Delete/>"), std::string("<Delete><Object/></Delete>"), deep,
          std::string("<Delete><Object><Key/></Object></Delete>"),
          std::string("<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>"),
          std::string("<Delete><Object><Key><b/></Key></Object></Delete>"),
          std::string("<Delete><Object><Key>\xff</Key></Object></Delete>")})
        CHECK(reason_of([&] { parse_delete(text); }) == "MalformedXML");
    // Entities of a document's own are not expanded.
    CHECK(parse_delete(bomb).entries[0].key == "&b;");
    std::string many = "<Delete>";
    for (int i = 0; i < 1001; ++i) many += "<Object><Key>k</Key></Object>";
    CHECK(reason_of([&] { parse_delete(many + "</Delete>"); }) == "MalformedXML");
    CHECK(reason_of([&] { parse_completed_parts("<CompleteMultipartUpload/>"); }) ==
          "MalformedXML");
    for (const char* number : {"0", "10001", "x", "-1", ""})
        CHECK(reason_of([&] {
                  parse_completed_parts(
                      fmt::format("<CompleteMultipartUpload><Part><PartNumber>{}"
                                  "</PartNumber><ETag>e</ETag></Part>"
                                  "</CompleteMultipartUpload>",
                                  number));
              }) == "InvalidArgument");
}

TEST_CASE("tags follow S3's rules") {
    const auto tagging = [](const std::string& tags) {
        return parse_tagging("<Tagging><TagSet>" + tags + "</TagSet></Tagging>");
    };
    const auto tag = [](const std::string& key, const std::string& value) {
        return "<Tag><Key>" + key + "</Key><Value>" + value + "</Value></Tag>";
    };
    CHECK(tagging("").empty());
    CHECK(tagging(tag("a", "")).at("a").empty());
    CHECK(reason_of([&] { tagging(tag("a", "1") + tag("a", "2")); }) == "InvalidTag");
    CHECK(reason_of([&] { tagging(tag("", "1")); }) == "InvalidTag");
    CHECK(reason_of([&] { tagging(tag(std::string(129, 'k'), "1")); }) == "InvalidTag");
    CHECK(reason_of([&] { tagging(tag("k", std::string(257, 'v'))); }) == "InvalidTag");
    std::string eleven;
    for (int i = 0; i < 11; ++i) eleven += tag(std::to_string(i), "");
    CHECK(reason_of([&] { tagging(eleven); }) == "BadRequest");
    CHECK(parse_tag_header("a=1&b=x%20y").at("b") == "x y");
    CHECK(reason_of([&] { parse_tag_header("a=%ff"); }) == "InvalidTag");
}

TEST_CASE("checksums are known by header, algorithm and element") {
    CHECK(checksum_of_header("X-Amz-Checksum-CRC64NVME") == "crc64nvme");
    CHECK_FALSE(checksum_of_header("x-amz-checksum-type"));
    CHECK_FALSE(checksum_of_header("content-md5"));
    CHECK(checksum_of_algorithm("CRC32C") == "crc32c");
    CHECK(reason_of([] { checksum_of_algorithm("MD4"); }) == "InvalidRequest");
    CHECK(checksum_element("sha1") == "ChecksumSHA1");
}
