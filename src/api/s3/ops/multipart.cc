// SPDX-License-Identifier: Apache-2.0
// Uploads in parts.
#include "api/s3/copy_source.h"
#include "api/s3/headers.h"
#include "api/s3/payload.h"
#include "api/s3/xml_in.h"
#include "base/text.h"

#include <unistd.h>
#include <algorithm>

namespace ty::api::s3 {
namespace {

constexpr Bytes kDocumentLimit(8u << 20);  // ten thousand parts with their checksums
constexpr std::size_t kMostListed = 1000;

/// The upload, which must belong to the bucket and key of the path.
objects::UploadInfo existing(const S3Call& call) {
    const std::string& id = call.query.get("uploadId");
    auto info = call.store().find_upload(id);
    const bool fits = info && info->bucket == call.bucket && info->key == call.key;
    if (!fits && !call.store().find_bucket(call.bucket))
        throw_error(Code::not_found, "NoSuchBucket", "The specified bucket does not exist: \"{}\"",
                    call.bucket);
    if (!fits)
        throw_error(Code::not_found, "NoSuchUpload",
                    "The specified upload does not exist. The upload ID may be invalid, or the "
                    "upload may have been aborted or completed: \"{}\"",
                    to_valid_utf8(truncate_utf8(id, 100)));
    return std::move(*info);
}

int part_number(const S3Call& call) {
    const auto number = parse_int(call.query.get("partNumber"));
    if (!number || *number < 1 || *number > 10000)
        throw_error(Code::invalid, "InvalidArgument",
                    "Part number must be an integer between 1 and 10000, inclusive");
    return static_cast<int>(*number);
}

/// Which checksum the finished object is to have, from the headers of its start.
void read_checksum_wish(const S3Call& call, objects::Attributes& attributes) {
    const std::string algorithm = call.header("x-amz-checksum-algorithm");
    const std::string type = to_upper(call.header("x-amz-checksum-type"));
    if (!type.empty() && type != "COMPOSITE" && type != "FULL_OBJECT")
        throw_error(Code::invalid, "InvalidRequest",
                    "x-amz-checksum-type must be COMPOSITE or FULL_OBJECT");
    if (algorithm.empty()) return;
    const std::string name = checksum_of_algorithm(algorithm);
    const bool hash = name == "sha1" || name == "sha256";
    if ((hash && type == "FULL_OBJECT") || (name == "crc64nvme" && type == "COMPOSITE"))
        throw_error(Code::invalid, "InvalidRequest",
                    "The {} checksum type cannot be used with the {} checksum algorithm", type,
                    algorithm);
    attributes.checksums[name] = "";
    attributes.checksum_type = !type.empty()         ? type
                               : name == "crc64nvme" ? "FULL_OBJECT"
                                                     : "COMPOSITE";
}

void add_checksum_wish(http::Headers& headers, const objects::Attributes& attributes) {
    if (attributes.checksums.empty()) return;
    headers.add("x-amz-checksum-algorithm", to_upper(attributes.checksums.begin()->first));
    headers.add("x-amz-checksum-type", attributes.checksum_type);
}

/// Parts carry the checksum of their upload even when the client sent none.
objects::Expectation expected_of(const Upload& body, const objects::UploadInfo& upload) {
    objects::Expectation expected = body.expectation();
    for (const auto& [name, value] : upload.attributes.checksums)
        expected.checksums.try_emplace(name, "");
    return expected;
}

objects::Source source_of(const objects::OpenObject& object, ByteRange range) {
    return [fd = object.file.get(), range](std::span<std::byte> into) mutable -> std::size_t {
        const std::size_t most = std::min<std::uint64_t>(into.size(), range.length);
        if (most == 0) return 0;
        const ssize_t n = ::pread(fd, into.data(), most, static_cast<off_t>(range.offset));
        if (n < 0) throw_errno("read the source object");
        range.offset += static_cast<std::uint64_t>(n);
        range.length -= static_cast<std::uint64_t>(n);
        return static_cast<std::size_t>(n);
    };
}

ByteRange copied_range(const S3Call& call, std::uint64_t size) {
    const std::string text = call.header("x-amz-copy-source-range");
    if (text.empty()) return {0, size};
    const auto range = parse_range(text, size);
    const auto dash = text.find('-');
    // Unlike a Range header it must be whole: both ends, inside the source.
    const auto last = dash == std::string::npos ? std::nullopt : parse_int(text.substr(dash + 1));
    if (!range || !last || *last < 0 || static_cast<std::uint64_t>(*last) >= size)
        throw_error(Code::invalid, "InvalidArgument",
                    "The x-amz-copy-source-range value must be of the form bytes=first-last within "
                    "the source's {} bytes, not \"{}\"",
                    size, to_valid_utf8(truncate_utf8(text, 100)));
    return *range;
}

}  // namespace

http::Response create_multipart_upload(S3Call& call) {
    objects::Attributes attributes = attributes_of(call);
    read_checksum_wish(call, attributes);
    const std::string id = call.store().start_upload(call.bucket, call.key, attributes);
    aws::XmlWriter xml;
    xml.open("InitiateMultipartUploadResult", {{"xmlns", kNamespace}})
        .element("Bucket", call.bucket)
        .element("Key", call.key)
        .element("UploadId", id);
    http::Response response = xml_reply(std::move(xml));
    add_encryption_headers(response.headers, attributes);
    add_checksum_wish(response.headers, attributes);
    return response;
}

http::Response upload_part(S3Call& call) {
    const int number = part_number(call);
    const objects::UploadInfo info = existing(call);
    Upload body(call);
    const objects::Part part =
        call.store().put_part(info.id, number, body.source(), expected_of(body, info));
    http::Response response;
    response.headers.add("ETag", quote_etag(part.etag));
    add_encryption_headers(response.headers, info.attributes);
    add_checksum_headers(response.headers, part.checksums);
    return response;
}

http::Response upload_part_copy(S3Call& call) {
    const int number = part_number(call);
    const objects::UploadInfo info = existing(call);
    const CopySource source = parse_copy_source(call.header("x-amz-copy-source"));
    const objects::OpenObject object = call.store().open(source.bucket, source.key);
    if (!check_read_conditions(call, "x-amz-copy-source-", object.info))
        throw_error(Code::conflict, "PreconditionFailed",
                    "At least one of the pre-conditions you specified did not hold: the source was "
                    "not modified");
    const ByteRange range = copied_range(call, object.info.size);
    objects::Expectation expected{.size = range.length};
    for (const auto& [name, value] : info.attributes.checksums) expected.checksums[name] = "";
    const objects::Part part =
        call.store().put_part(info.id, number, source_of(object, range), expected);
    aws::XmlWriter xml;
    xml.open("CopyPartResult", {{"xmlns", kNamespace}})
        .element("LastModified", format_iso8601(part.modified))
        .element("ETag", quote_etag(part.etag));
    add_checksum_elements(xml, part.checksums);
    return xml_reply(std::move(xml));
}

http::Response complete_multipart_upload(S3Call& call) {
    const objects::UploadInfo info = existing(call);
    const auto parts =
        parse_completed_parts(read_document(call, kDocumentLimit, ChecksumOf::finished_object));
    const auto object =
        call.store().complete_upload(info.id, parts, write_condition(call), checksum_headers(call));
    aws::XmlWriter xml;
    xml.open("CompleteMultipartUploadResult", {{"xmlns", kNamespace}})
        .element("Location", fmt::format("{}/{}/{}", call.call.services.settings.endpoint,
                                         call.bucket, percent_encode(call.key, Slash::keep)))
        .element("Bucket", call.bucket)
        .element("Key", call.key)
        .element("ETag", quote_etag(object.etag));
    if (!object.attributes.checksums.empty()) {
        add_checksum_elements(xml, object.attributes.checksums);
        xml.element("ChecksumType", object.attributes.checksum_type);
    }
    http::Response response = xml_reply(std::move(xml));
    add_encryption_headers(response.headers, object.attributes);
    return response;
}

http::Response abort_multipart_upload(S3Call& call) {
    call.store().abort_upload(existing(call).id);
    return empty_reply(204);
}

http::Response list_parts(S3Call& call) {
    const objects::UploadInfo info = existing(call);
    const auto limit = call.query.count("max-parts", kMostListed, kMostListed);
    const auto marker = call.query.count("part-number-marker", 0, 10000);
    std::vector<objects::Part> parts = call.store().list_parts(info.id);
    std::erase_if(parts, [&](const objects::Part& part) {
        return static_cast<std::size_t>(part.number) <= marker;
    });
    const bool truncated = parts.size() > limit;
    if (truncated) parts.resize(limit);
    aws::XmlWriter xml;
    xml.open("ListPartsResult", {{"xmlns", kNamespace}})
        .element("Bucket", call.bucket)
        .element("Key", call.key)
        .element("UploadId", info.id);
    add_owner(xml, "Initiator", call);
    add_owner(xml, "Owner", call);
    xml.element("StorageClass", "STANDARD").element("PartNumberMarker", marker);
    if (truncated && !parts.empty()) xml.element("NextPartNumberMarker", parts.back().number);
    xml.element("MaxParts", limit).element("IsTruncated", truncated);
    if (!info.attributes.checksums.empty())
        xml.element("ChecksumAlgorithm", to_upper(info.attributes.checksums.begin()->first))
            .element("ChecksumType", info.attributes.checksum_type);
    for (const objects::Part& part : parts) {
        xml.open("Part")
            .element("PartNumber", part.number)
            .element("LastModified", format_iso8601(part.modified))
            .element("ETag", quote_etag(part.etag))
            .element("Size", part.size);
        add_checksum_elements(xml, part.checksums);
        xml.close();
    }
    return xml_reply(std::move(xml));
}

http::Response list_multipart_uploads(S3Call& call) {
    const std::string& prefix = call.query.get("prefix");
    const std::string& key_marker = call.query.get("key-marker");
    const std::string& id_marker = call.query.get("upload-id-marker");
    const auto limit = call.query.count("max-uploads", kMostListed, kMostListed);
    std::vector<objects::UploadInfo> uploads = call.store().list_uploads(call.bucket, prefix);
    // The order of the markers, which is ours to choose among uploads of one key.
    std::ranges::sort(uploads, {}, [](const objects::UploadInfo& u) {
        return std::pair<std::string_view, std::string_view>(u.key, u.id);
    });
    std::erase_if(uploads, [&](const objects::UploadInfo& u) {
        if (u.key != key_marker) return u.key < key_marker;
        return id_marker.empty() || u.id <= id_marker;
    });
    const bool truncated = uploads.size() > limit;
    if (truncated) uploads.resize(limit);
    const bool url = call.query.get("encoding-type") == "url";
    const auto encoded = [&](const std::string& text) {
        return url ? percent_encode(text, Slash::keep) : text;
    };
    aws::XmlWriter xml;
    xml.open("ListMultipartUploadsResult", {{"xmlns", kNamespace}})
        .element("Bucket", call.bucket)
        .element("KeyMarker", encoded(key_marker))
        .element("UploadIdMarker", id_marker)
        .element("Prefix", encoded(prefix));
    if (url) xml.element("EncodingType", "url");
    if (truncated && !uploads.empty())
        xml.element("NextKeyMarker", encoded(uploads.back().key))
            .element("NextUploadIdMarker", uploads.back().id);
    xml.element("MaxUploads", limit).element("IsTruncated", truncated);
    for (const objects::UploadInfo& u : uploads) {
        xml.open("Upload").element("Key", encoded(u.key)).element("UploadId", u.id);
        add_owner(xml, "Initiator", call);
        add_owner(xml, "Owner", call);
        xml.element("StorageClass", "STANDARD")
            .element("Initiated", format_iso8601(u.started))
            .close();
    }
    return xml_reply(std::move(xml));
}

}  // namespace ty::api::s3
