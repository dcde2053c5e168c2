// SPDX-License-Identifier: Apache-2.0
// Presigned S3 URLs of the signature before version 4 (AWSAccessKeyId, Expires, Signature): what
// boto3 and the AWS CLI still make in the oldest regions, us-east-1 first, unless told otherwise.
// In a URL only: requests that carry it in the Authorization header are refused, as in new regions.
//
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html
#include "aws/signature.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <map>

namespace ty::aws {

namespace {

/// Parameters that are part of the resource: sub-resources and what overrides response headers.
constexpr std::array<std::string_view, 35> kSigned{"accelerate",
                                                   "acl",
                                                   "analytics",
                                                   "cors",
                                                   "defaultObjectAcl",
                                                   "delete",
                                                   "inventory",
                                                   "lifecycle",
                                                   "location",
                                                   "logging",
                                                   "metrics",
                                                   "notification",
                                                   "object-lock",
                                                   "partNumber",
                                                   "policy",
                                                   "replication",
                                                   "requestPayment",
                                                   "response-cache-control",
                                                   "response-content-disposition",
                                                   "response-content-encoding",
                                                   "response-content-language",
                                                   "response-content-type",
                                                   "response-expires",
                                                   "restore",
                                                   "select",
                                                   "select-type",
                                                   "storageClass",
                                                   "tagging",
                                                   "torrent",
                                                   "uploadId",
                                                   "uploads",
                                                   "versionId",
                                                   "versioning",
                                                   "versions",
                                                   "website"};

struct OldClaim {
    std::string access_key, signature, expires;
    std::string content_type, content_md5;        ///< as the URL repeats them
    std::map<std::string, std::string> extra;     ///< x-amz-* parameters, names in lower case
    std::map<std::string, std::string> resource;  ///< "uploadId" -> "uploadId=…"
};

OldClaim read_old_claim(const http::Request& request) {
    OldClaim claim;
    for (auto& [name, value] : parse_query(request.query)) {
        const std::string lower = to_lower(name);
        if (name == "AWSAccessKeyId") {
            claim.access_key = std::move(value);
        } else if (name == "Signature") {
            claim.signature = replace_all(value, " ", "+");  // base64 whose plus was not encoded
        } else if (name == "Expires") {
            claim.expires = std::move(value);
        } else if (lower == "content-type") {
            claim.content_type = std::move(value);
        } else if (lower == "content-md5") {
            claim.content_md5 = std::move(value);
        } else if (lower.starts_with("x-amz-")) {
            claim.extra[lower] = std::move(value);
        } else if (std::ranges::find(kSigned, name) != kSigned.end()) {
            claim.resource[name] = value.empty() ? name : name + "=" + value;
        }
    }
    return claim;
}

/// The header where it was sent; what the URL says about it otherwise.
std::string header_or(const http::Request& request, std::string_view name,
                      const std::string& otherwise) {
    const auto sent = request.headers.find(name);
    return sent ? std::string(trim(*sent)) : otherwise;
}

std::string amz_lines(const http::Request& request, OldClaim& claim) {
    for (const auto& [name, value] : request.headers) {
        const std::string lower = to_lower(name);
        if (lower.starts_with("x-amz-")) claim.extra[lower] = trim(value);
    }
    std::string lines;
    for (const auto& [name, value] : claim.extra) lines += name + ":" + value + "\n";
    return lines;
}

std::string resource_of(const http::Request& request, const OldClaim& claim) {
    // A bucket in the host name is signed as if it stood in the path.
    const std::string bucket = parse_aws_host(request.headers.get("host")).bucket;
    std::string text = bucket.empty() ? request.path : "/" + bucket + request.path;
    char separator = '?';
    for (const auto& [name, part] : claim.resource) {
        text += separator + part;
        separator = '&';
    }
    return text;
}

std::string hmac_sha1(std::string_view key, std::string_view data) {
    std::string block(key);
    if (block.size() > 64) {
        Hasher short_key(HashKind::sha1);
        short_key.update(key);
        block = short_key.finish();
    }
    block.resize(64, '\0');
    const auto round = [&](char pad, std::string_view text) {
        std::string head = block;
        for (char& c : head) c = static_cast<char>(c ^ pad);
        Hasher hasher(HashKind::sha1);
        hasher.update(head);
        hasher.update(text);
        return hasher.finish();
    };
    return round(0x5c, round(0x36, data));
}

[[noreturn]] void refuse(std::string_view reason, std::string message) {
    throw Error(Code::denied, std::string(reason), std::move(message));
}

}  // namespace

bool is_old_presigned(const http::Request& request) {
    return request.query.find("AWSAccessKeyId=") != std::string::npos &&
           request.query.find("Signature=") != std::string::npos;
}

Verified verify_old_presigned(const http::Request& request, const KeyLookup& keys, Instant now) {
    OldClaim claim = read_old_claim(request);
    const auto credentials = keys(claim.access_key);
    if (!credentials)
        refuse("InvalidAccessKeyId",
               format("The AWS Access Key Id you provided does not exist in our records. "
                      "(access key \"{}\")",
                      to_valid_utf8(claim.access_key.substr(0, 64))));
    const auto expires = parse_int(claim.expires);
    if (!expires)
        refuse("AccessDenied", format("Invalid date (should be seconds since epoch): {}",
                                      to_valid_utf8(claim.expires.substr(0, 40))));
    if (to_epoch_seconds(now) > static_cast<double>(*expires))
        refuse("AccessDenied", format("Request has expired (at {}, server time {})", *expires,
                                      format_amz_date(now)));
    std::string text = request.method + "\n";
    text += header_or(request, "content-md5", claim.content_md5) + "\n";
    text += header_or(request, "content-type", claim.content_type) + "\n";
    text += claim.expires + "\n";
    text += amz_lines(request, claim);
    text += resource_of(request, claim);
    const std::string expected = to_base64(as_bytes(hmac_sha1(credentials->secret_key, text)));
    if (!equal_in_constant_time(expected, claim.signature))
        refuse("SignatureDoesNotMatch",
               "The request signature we calculated does not match the signature you provided. "
               "Check your AWS Secret Access Key and signing method.");
    if (!credentials->session_token.empty() &&
        !equal_in_constant_time(credentials->session_token, claim.extra["x-amz-security-token"]))
        refuse("InvalidToken", "The provided token is malformed or otherwise invalid.");
    Verified verified;
    verified.scope.access_key = claim.access_key;
    verified.scope.service = "s3";
    verified.scope.presigned = true;
    verified.payload_hash = std::string(request.headers.get("x-amz-content-sha256"));
    verified.signature = std::move(claim.signature);
    return verified;
}

}  // namespace ty::aws
