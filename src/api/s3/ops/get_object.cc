// SPDX-License-Identifier: Apache-2.0
// GetObject, HeadObject, GetObjectAttributes.
#include "api/s3/headers.h"
#include "api/s3/payload.h"
#include "base/text.h"

#include <algorithm>
#include <numeric>

namespace ty::api::s3 {
namespace {

/// What of the object is asked for.
struct Wanted {
    ByteRange range;
    bool partial = false;  ///< answered with 206
    bool whole = true;     ///< its checksums are those of the whole object
};

Wanted wanted_part(const std::string& text, const objects::ObjectInfo& info) {
    const auto number = parse_int(text);
    if (!number || *number < 1 || *number > 10000)
        throw_error(Code::invalid, "InvalidArgument",
                    "Part number must be an integer between 1 and 10000, inclusive");
    const auto& sizes = info.attributes.part_sizes;
    const auto index = static_cast<std::size_t>(*number - 1);
    if (index >= std::max<std::size_t>(sizes.size(), 1))
        throw_error(Code::invalid, "InvalidRange",
                    "The requested partnumber is not satisfiable: the object has {} parts",
                    std::max<std::size_t>(sizes.size(), 1));
    if (sizes.empty()) return {{0, info.size}, true, true};
    const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(index);
    return {{std::accumulate(sizes.begin(), at, std::uint64_t(0)), *at}, true, sizes.size() == 1};
}

Wanted wanted_of(const S3Call& call, const objects::ObjectInfo& info) {
    const std::string range = call.header("range");
    const std::string& part = call.query.get("partNumber");
    if (!part.empty()) {
        if (!range.empty())
            throw_error(Code::invalid, "InvalidRequest",
                        "Cannot specify both Range header and partNumber query parameter");
        return wanted_part(part, info);
    }
    const std::string if_range = call.header("if-range");
    const bool current = if_range.empty() || unquote_etag(if_range) == info.etag ||
                         if_range == format_http_date(info.modified);
    if (!range.empty() && current)
        if (const auto found = parse_range(range, info.size)) return {*found, true, false};
    return {{0, info.size}, false, true};
}

void check_version(const S3Call& call) {
    const std::string& version = call.query.get("versionId");
    if (!version.empty() && version != "null")
        throw_error(Code::not_found, "NoSuchVersion",
                    "The specified version does not exist: \"{}\"; buckets have no versions here",
                    to_valid_utf8(truncate_utf8(version, 100)));
}

http::Response not_modified(const objects::ObjectInfo& info) {
    http::Response response = empty_reply(304);
    response.headers.add("ETag", quote_etag(info.etag));
    response.headers.add("Last-Modified", format_http_date(info.modified));
    response.head_only = true;
    return response;
}

http::Response answer(const S3Call& call, const objects::ObjectInfo& info, const Wanted& wanted) {
    http::Response response;
    response.status = wanted.partial ? 206 : 200;
    add_object_headers(response.headers, call, info);
    if (wanted.partial && wanted.range.length != 0)
        response.headers.add("Content-Range",
                             fmt::format("bytes {}-{}/{}", wanted.range.offset,
                                         wanted.range.offset + wanted.range.length - 1, info.size));
    if (!call.query.get("partNumber").empty() && !info.attributes.part_sizes.empty())
        response.headers.add("x-amz-mp-parts-count",
                             std::to_string(info.attributes.part_sizes.size()));
    // Clients compare a checksum with the bytes they get: only of a whole object.
    if (wanted.whole && !info.attributes.checksums.empty() &&
        equals_ignoring_case(call.header("x-amz-checksum-mode"), "ENABLED")) {
        add_checksum_headers(response.headers, info.attributes.checksums);
        response.headers.add("x-amz-checksum-type", info.attributes.checksum_type);
    }
    return response;
}

[[noreturn]] void throw_no_such_key(const S3Call& call) {
    throw_error(Code::not_found, "NoSuchKey", "The specified key does not exist: s3://{}/{}",
                call.bucket, call.key);
}

}  // namespace

http::Response get_object(S3Call& call) {
    check_version(call);
    objects::OpenObject object = call.store().open(call.bucket, call.key);
    if (!check_read_conditions(call, "", object.info)) return not_modified(object.info);
    const Wanted wanted = wanted_of(call, object.info);
    http::Response response = answer(call, object.info, wanted);
    response.file =
        http::FileBody{std::move(object.file), wanted.range.offset, wanted.range.length};
    return response;
}

http::Response head_object(S3Call& call) {
    check_version(call);
    const auto info = call.store().find(call.bucket, call.key);
    if (!info) throw_no_such_key(call);
    if (!check_read_conditions(call, "", *info)) return not_modified(*info);
    const Wanted wanted = wanted_of(call, *info);
    http::Response response = answer(call, *info, wanted);
    response.headers.set("Content-Length", std::to_string(wanted.range.length));
    response.head_only = true;
    return response;
}

http::Response get_object_attributes(S3Call& call) {
    check_version(call);
    const auto info = call.store().find(call.bucket, call.key);
    if (!info) throw_no_such_key(call);
    std::vector<std::string> names;
    for (const std::string& name : split(call.header("x-amz-object-attributes"), ','))
        names.emplace_back(trim(name));
    const auto wants = [&](std::string_view name) {
        return std::ranges::find(names, name) != names.end();
    };
    if (names.size() == 1 && names.front().empty())
        throw_error(Code::invalid, "InvalidArgument",
                    "x-amz-object-attributes must name at least one attribute");
    aws::XmlWriter xml;
    xml.open("GetObjectAttributesResponse", {{"xmlns", kNamespace}});
    const objects::Attributes& attributes = info->attributes;
    if (wants("ETag")) xml.element("ETag", info->etag);
    if (wants("Checksum") && !attributes.checksums.empty()) {
        xml.open("Checksum");
        add_checksum_elements(xml, attributes.checksums);
        xml.element("ChecksumType", attributes.checksum_type).close();
    }
    if (wants("ObjectParts") && !attributes.part_sizes.empty())
        xml.open("ObjectParts").element("PartsCount", attributes.part_sizes.size()).close();
    if (wants("StorageClass")) {
        const auto found = attributes.headers.find("x-amz-storage-class");
        xml.element("StorageClass",
                    found != attributes.headers.end() ? found->second : std::string("STANDARD"));
    }
    if (wants("ObjectSize")) xml.element("ObjectSize", info->size);
    http::Response response = xml_reply(std::move(xml));
    response.headers.add("Last-Modified", format_http_date(info->modified));
    return response;
}

}  // namespace ty::api::s3
