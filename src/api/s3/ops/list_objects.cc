// SPDX-License-Identifier: Apache-2.0
// ListObjects (v1), ListObjectsV2, and ListObjectVersions for buckets without versions.
#include "api/s3/s3.h"
#include "base/text.h"

namespace ty::api::s3 {
namespace {

constexpr std::size_t kMostKeys = 1000;

/// What the three have in common.
class Page {
public:
    explicit Page(S3Call& call)
        : call_(call),
          prefix_(call.query.get("prefix")),
          delimiter_(call.query.get("delimiter")),
          limit_(call.query.count("max-keys", kMostKeys, kMostKeys)) {
        const std::string& type = call.query.get("encoding-type");
        if (!type.empty() && type != "url")
            throw_error(Code::invalid, "InvalidArgument",
                        "Invalid Encoding Method specified in Request: \"{}\"; only url is known",
                        to_valid_utf8(truncate_utf8(type, 40)));
        url_ = !type.empty();
    }

    objects::Listing list(const std::string& after) const {
        return call_.store().list(call_.bucket, {prefix_, delimiter_, after, limit_});
    }

    std::string encoded(const std::string& text) const {
        return url_ ? percent_encode(text, Slash::keep) : text;
    }
    /// An element in the listing's encoding; nothing when `text` is empty.
    void optional(aws::XmlWriter& xml, std::string_view name, const std::string& text) const {
        if (!text.empty()) xml.element(name, encoded(text));
    }

    void head(aws::XmlWriter& xml, const objects::Listing& listing) const {
        xml.element("Name", call_.bucket).element("Prefix", encoded(prefix_));
        optional(xml, "Delimiter", delimiter_);
        xml.element("MaxKeys", limit_);
        if (url_) xml.element("EncodingType", "url");
        xml.element("IsTruncated", listing.truncated);
    }

    enum class Owner { omit, show };
    void contents(aws::XmlWriter& xml, const objects::Listing& listing, Owner owner) const {
        for (const objects::ObjectInfo& info : listing.objects) {
            xml.open("Contents");
            fields(xml, info);
            if (owner == Owner::show) add_owner(xml, "Owner", call_);
            xml.close();
        }
    }
    void fields(aws::XmlWriter& xml, const objects::ObjectInfo& info) const {
        xml.element("Key", encoded(info.key))
            .element("LastModified", format_iso8601(info.modified))
            .element("ETag", quote_etag(info.etag))
            .element("Size", info.size)
            .element("StorageClass", "STANDARD");
    }
    void prefixes(aws::XmlWriter& xml, const objects::Listing& listing) const {
        for (const std::string& prefix : listing.common_prefixes)
            xml.open("CommonPrefixes").element("Prefix", encoded(prefix)).close();
    }
    bool has_delimiter() const { return !delimiter_.empty(); }

private:
    S3Call& call_;
    std::string prefix_, delimiter_;
    std::size_t limit_;
    bool url_ = false;
};

std::string token_of(const std::string& after) {
    return to_base64(as_bytes(after));
}

std::string after_token(const std::string& token) {
    auto after = from_base64(token);
    if (!after || after->empty())
        throw_error(Code::invalid, "InvalidArgument",
                    "The continuation token provided is incorrect: \"{}\"",
                    to_valid_utf8(truncate_utf8(token, 100)));
    return std::move(*after);
}

}  // namespace

http::Response list_objects(S3Call& call) {
    const Page page(call);
    const std::string& marker = call.query.get("marker");
    const objects::Listing listing = page.list(marker);
    aws::XmlWriter xml;
    xml.open("ListBucketResult", {{"xmlns", kNamespace}});
    page.head(xml, listing);
    xml.element("Marker", page.encoded(marker));
    // Without a delimiter clients go on from the last key; AWS sends no NextMarker then.
    if (page.has_delimiter()) page.optional(xml, "NextMarker", listing.next);
    page.contents(xml, listing, Page::Owner::show);
    page.prefixes(xml, listing);
    return xml_reply(std::move(xml));
}

http::Response list_objects_v2(S3Call& call) {
    if (call.query.get("list-type") != "2")
        throw_error(Code::invalid, "InvalidArgument", "Invalid List Type specified in Request");
    const Page page(call);
    const std::string& start = call.query.get("start-after");
    const std::string& token = call.query.get("continuation-token");
    const objects::Listing listing =
        page.list(call.query.has("continuation-token") ? after_token(token) : start);
    aws::XmlWriter xml;
    xml.open("ListBucketResult", {{"xmlns", kNamespace}});
    page.head(xml, listing);
    xml.element("KeyCount", listing.objects.size() + listing.common_prefixes.size());
    if (!token.empty()) xml.element("ContinuationToken", token);
    if (!listing.next.empty()) xml.element("NextContinuationToken", token_of(listing.next));
    page.optional(xml, "StartAfter", start);
    const bool owner = call.query.get("fetch-owner") == "true";
    page.contents(xml, listing, owner ? Page::Owner::show : Page::Owner::omit);
    page.prefixes(xml, listing);
    return xml_reply(std::move(xml));
}

http::Response list_object_versions(S3Call& call) {
    const Page page(call);
    const std::string& marker = call.query.get("key-marker");
    const objects::Listing listing = page.list(marker);
    aws::XmlWriter xml;
    xml.open("ListVersionsResult", {{"xmlns", kNamespace}});
    page.head(xml, listing);
    xml.element("KeyMarker", page.encoded(marker));
    xml.element("VersionIdMarker", call.query.get("version-id-marker"));
    if (!listing.next.empty()) {
        page.optional(xml, "NextKeyMarker", listing.next);
        xml.element("NextVersionIdMarker", "null");
    }
    for (const objects::ObjectInfo& info : listing.objects) {
        xml.open("Version");
        page.fields(xml, info);
        xml.element("VersionId", "null").element("IsLatest", true);
        add_owner(xml, "Owner", call);
        xml.close();
    }
    page.prefixes(xml, listing);
    return xml_reply(std::move(xml));
}

}  // namespace ty::api::s3
