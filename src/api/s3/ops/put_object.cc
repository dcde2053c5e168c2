// SPDX-License-Identifier: Apache-2.0
// PutObject and CopyObject.
#include "api/s3/copy_source.h"
#include "api/s3/headers.h"
#include "api/s3/payload.h"
#include "base/text.h"

namespace ty::api::s3 {
namespace {

/// True when the request says REPLACE. Throws invalid "InvalidArgument" for other words than COPY.
bool replaces(const S3Call& call, std::string_view header) {
    const std::string word = call.header(header);
    if (word.empty() || word == "COPY") return false;
    if (word != "REPLACE")
        throw_error(Code::invalid, "InvalidArgument", "{} must be COPY or REPLACE, not \"{}\"",
                    header, to_valid_utf8(truncate_utf8(word, 40)));
    return true;
}

}  // namespace

http::Response put_object(S3Call& call) {
    objects::Attributes attributes = attributes_of(call);
    Upload upload(call);
    const auto info =
        call.store().put(call.bucket, call.key, std::move(attributes), upload.source(),
                         upload.expectation(), write_condition(call));
    http::Response response;
    response.headers.add("ETag", quote_etag(info.etag));
    add_encryption_headers(response.headers, info.attributes);
    if (!info.attributes.checksums.empty()) {
        add_checksum_headers(response.headers, info.attributes.checksums);
        response.headers.add("x-amz-checksum-type", info.attributes.checksum_type);
    }
    return response;
}

http::Response copy_object(S3Call& call) {
    const CopySource source = parse_copy_source(call.header("x-amz-copy-source"));
    const auto found = call.store().find(source.bucket, source.key);
    if (!found)
        throw_error(Code::not_found, "NoSuchKey", "The specified key does not exist: s3://{}/{}",
                    source.bucket, source.key);
    if (!check_read_conditions(call, "x-amz-copy-source-", *found))
        throw_error(Code::conflict, "PreconditionFailed",
                    "At least one of the pre-conditions you specified did not hold: the source was "
                    "not modified");
    objects::Attributes wanted = attributes_of(call);
    const bool replace = replaces(call, "x-amz-metadata-directive");
    const bool replace_tags = replaces(call, "x-amz-tagging-directive");
    const bool changes = replace || replace_tags || !wanted.headers.empty();
    if (source.bucket == call.bucket && source.key == call.key && !changes)
        throw_error(Code::invalid, "InvalidRequest",
                    "This copy request is illegal because it is trying to copy an object to itself "
                    "without changing the object's metadata, storage class, website redirect "
                    "location or encryption attributes.");
    std::optional<objects::Attributes> attributes;
    if (changes) {
        attributes = replace ? wanted : found->attributes;
        for (const auto& [name, value] : wanted.headers)
            if (name.starts_with("x-amz-")) attributes->headers[name] = value;
        attributes->tags = replace_tags ? wanted.tags : found->attributes.tags;
    }
    const auto info =
        call.store().copy(source.bucket, source.key, call.bucket, call.key, attributes);
    aws::XmlWriter xml;
    xml.open("CopyObjectResult", {{"xmlns", kNamespace}});
    xml.element("LastModified", format_iso8601(info.modified))
        .element("ETag", quote_etag(info.etag));
    if (!info.attributes.checksums.empty()) {
        add_checksum_elements(xml, info.attributes.checksums);
        xml.element("ChecksumType", info.attributes.checksum_type);
    }
    http::Response response = xml_reply(std::move(xml));
    add_encryption_headers(response.headers, info.attributes);
    return response;
}

}  // namespace ty::api::s3
