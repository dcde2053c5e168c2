// SPDX-License-Identifier: Apache-2.0
// Buckets: one owner, any region.
#include "api/s3/payload.h"
#include "api/s3/xml_in.h"
#include "base/text.h"

namespace ty::api::s3 {
namespace {

constexpr Bytes kDocumentLimit(64u << 10);
constexpr std::size_t kMostBuckets = 10000;

objects::Bucket existing(const S3Call& call) {
    auto bucket = call.store().find_bucket(call.bucket);
    if (!bucket)
        throw_error(Code::not_found, "NoSuchBucket", "The specified bucket does not exist: \"{}\"",
                    call.bucket);
    return std::move(*bucket);
}

}  // namespace

http::Response list_buckets(S3Call& call) {
    const std::string& prefix = call.query.get("prefix");
    const std::string& after = call.query.get("continuation-token");
    const std::string& region = call.query.get("bucket-region");
    std::size_t left = call.query.count("max-buckets", kMostBuckets, kMostBuckets);
    aws::XmlWriter xml;
    xml.open("ListAllMyBucketsResult", {{"xmlns", kNamespace}});
    add_owner(xml, "Owner", call);
    xml.open("Buckets");
    std::string last, token;
    for (const objects::Bucket& bucket : call.store().list_buckets()) {
        if (!bucket.name.starts_with(prefix) || bucket.name <= after) continue;
        if (!region.empty() && bucket.region != region) continue;
        if (left == 0) {
            token = last;
            break;
        }
        --left;
        xml.open("Bucket")
            .element("Name", bucket.name)
            .element("CreationDate", format_iso8601(bucket.created))
            .element("BucketRegion", bucket.region)
            .close();
        last = bucket.name;
    }
    xml.close();
    if (!token.empty()) xml.element("ContinuationToken", token);
    if (!prefix.empty()) xml.element("Prefix", prefix);
    return xml_reply(std::move(xml));
}

http::Response create_bucket(S3Call& call) {
    std::string region = parse_location_constraint(read_document(call, kDocumentLimit));
    if (region == "EU") region = "eu-west-1";  // the name of the first region outside the US
    if (region.empty()) region = call.call.caller.region;
    if (region.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos ||
        region.size() > 32)
        throw_error(Code::invalid, "InvalidLocationConstraint",
                    "The specified location-constraint is not valid: \"{}\"", region.substr(0, 40));
    try {
        call.store().create_bucket(call.bucket, region);
    } catch (const Error& error) {
        // us-east-1 has always answered so; the SDK relies on it.
        const bool mine = error.reason() == "BucketAlreadyOwnedByYou";
        if (!mine || call.call.caller.region != "us-east-1") throw;
    }
    http::Response response;
    response.headers.add("Location", "/" + call.bucket);
    return response;
}

http::Response head_bucket(S3Call& call) {
    const objects::Bucket bucket = existing(call);
    http::Response response;
    response.headers.add("x-amz-bucket-region", bucket.region);
    response.headers.add("x-amz-access-point-alias", "false");
    response.headers.add("Content-Type", "application/xml");
    return response;
}

http::Response delete_bucket(S3Call& call) {
    call.store().delete_bucket(call.bucket);
    return empty_reply(204);
}

http::Response get_bucket_location(S3Call& call) {
    const objects::Bucket bucket = existing(call);
    aws::XmlWriter xml;
    xml.open("LocationConstraint", {{"xmlns", kNamespace}});
    if (bucket.region != "us-east-1") xml.text(bucket.region);
    return xml_reply(std::move(xml));
}

}  // namespace ty::api::s3
