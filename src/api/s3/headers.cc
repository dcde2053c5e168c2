// SPDX-License-Identifier: Apache-2.0
#include "api/s3/headers.h"

#include "api/s3/xml_in.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::api::s3 {
namespace {

constexpr std::string_view kMeta = "x-amz-meta-";
constexpr std::size_t kMostMetadata = 2048;

/// Stored as sent and given back.
constexpr std::array<std::string_view, 10> kKept{
    "cache-control",
    "content-disposition",
    "content-language",
    "expires",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-bucket-key-enabled",
};
constexpr std::string_view kEncryption = "x-amz-server-side-encryption";

struct Override {
    std::string_view parameter, header;
};
constexpr std::array kOverrides{
    Override{"response-content-type", "Content-Type"},
    Override{"response-content-language", "Content-Language"},
    Override{"response-expires", "Expires"},
    Override{"response-cache-control", "Cache-Control"},
    Override{"response-content-disposition", "Content-Disposition"},
    Override{"response-content-encoding", "Content-Encoding"},
};

/// "aws-chunked" is the framing of the upload, not part of the object.
std::string without_framing(std::string_view encoding) {
    std::vector<std::string> kept;
    for (const std::string& one : split(encoding, ','))
        if (const auto word = trim(one);
            !word.empty() && !equals_ignoring_case(word, "aws-chunked"))
            kept.emplace_back(word);
    return join(kept, ",");
}

bool names_etag(std::string_view list, const std::string& etag) {
    for (const std::string& one : split(list, ','))
        if (trim(one) == "*" || unquote_etag(one) == etag) return true;
    return false;
}

/// HTTP dates have whole seconds.
bool is_after(Instant modified, std::string_view date, bool& understood) {
    const auto when = parse_http_date(date);
    understood = when.has_value();
    return understood && std::chrono::floor<seconds>(modified) > *when;
}

[[noreturn]] void failed(std::string_view header) {
    throw_error(Code::conflict, "PreconditionFailed",
                "At least one of the pre-conditions you specified did not hold: {}", header);
}

}  // namespace

objects::Attributes attributes_of(const S3Call& call) {
    objects::Attributes out;
    std::size_t metadata = 0;
    for (const auto& [name, value] : call.call.request.headers) {
        const std::string lower = to_lower(name);
        if (lower.starts_with("x-amz-server-side-encryption-customer-"))
            throw_error(Code::unsupported, "",
                        "encryption with customer-provided keys ({}) is not offered: objects are "
                        "stored as they are; leave the header out",
                        lower);
        if (lower.starts_with(kMeta)) {
            std::string& slot = out.metadata[lower.substr(kMeta.size())];
            slot += (slot.empty() ? "" : ",") + value;
            metadata += lower.size() - kMeta.size() + value.size();
        } else if (std::ranges::find(kKept, lower) != kKept.end()) {
            out.headers[lower] = value;
        }
    }
    if (metadata > kMostMetadata)
        throw_error(Code::invalid, "MetadataTooLarge",
                    "Your metadata headers have {} bytes; {} are allowed", metadata, kMostMetadata);
    if (const std::string type = call.header("content-type"); !type.empty())
        out.content_type = type;
    if (std::string encoding = without_framing(call.header("content-encoding")); !encoding.empty())
        out.headers["content-encoding"] = std::move(encoding);
    out.tags = parse_tag_header(call.header("x-amz-tagging"));
    return out;
}

std::map<std::string, std::string> parse_tag_header(std::string_view text) {
    if (text.empty()) return {};
    const auto tags = parse_query(text);
    check_tags(tags);
    for (const auto& [key, value] : tags)
        if (!is_valid_utf8(key) || !is_valid_utf8(value))
            throw_error(Code::invalid, "InvalidTag", "x-amz-tagging is not UTF-8 text");
    return {tags.begin(), tags.end()};
}

void add_encryption_headers(http::Headers& headers, const objects::Attributes& attributes) {
    for (const auto& [name, value] : attributes.headers)
        if (name.starts_with(kEncryption)) headers.add(name, value);
}

void add_object_headers(http::Headers& headers, const S3Call& call,
                        const objects::ObjectInfo& info) {
    headers.add("Accept-Ranges", "bytes");
    headers.add("Last-Modified", format_http_date(info.modified));
    headers.add("ETag", quote_etag(info.etag));
    headers.add("Content-Type", info.attributes.content_type);
    for (const auto& [name, value] : info.attributes.headers)
        if (name != "x-amz-storage-class" || value != "STANDARD") headers.add(name, value);
    for (const auto& [name, value] : info.attributes.metadata)
        headers.add(std::string(kMeta) + name, value);
    if (!info.attributes.tags.empty())
        headers.add("x-amz-tagging-count", std::to_string(info.attributes.tags.size()));
    for (const Override& row : kOverrides)
        if (const std::string& value = call.query.get(row.parameter); !value.empty())
            headers.set(row.header, value);
}

objects::Precondition write_condition(const S3Call& call) {
    objects::Precondition out;
    if (const std::string etag = call.header("if-match"); !etag.empty())
        out.if_match = unquote_etag(etag);
    if (const std::string etag = call.header("if-none-match"); !etag.empty()) {
        if (trim(etag) != "*")
            throw_error(Code::unsupported, "",
                        "If-None-Match with a value other than * is not offered for writes");
        out.if_none_match = true;
    }
    return out;
}

bool check_read_conditions(const S3Call& call, std::string_view prefix,
                           const objects::ObjectInfo& info) {
    const auto header = [&](std::string_view name) {
        return call.header(std::string(prefix) + std::string(name));
    };
    bool understood = false;
    const std::string match = header("if-match"), none = header("if-none-match");
    if (!match.empty()) {
        if (!names_etag(match, info.etag)) failed("If-Match");
    } else if (const std::string date = header("if-unmodified-since"); !date.empty()) {
        if (is_after(info.modified, date, understood)) failed("If-Unmodified-Since");
    }
    if (!none.empty()) {
        if (names_etag(none, info.etag)) return false;
    } else if (const std::string date = header("if-modified-since"); !date.empty()) {
        if (!is_after(info.modified, date, understood) && understood) return false;
    }
    return true;
}

std::optional<ByteRange> parse_range(std::string_view text, std::uint64_t size) {
    text = trim(text);
    if (!text.starts_with("bytes=")) return std::nullopt;
    text.remove_prefix(6);
    const auto dash = text.find('-');
    if (dash == std::string_view::npos || text.find(',') != std::string_view::npos)
        return std::nullopt;
    const auto number = [](std::string_view digits) -> std::optional<std::uint64_t> {
        if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
            return std::nullopt;
        const auto value = parse_int(digits);
        return value ? static_cast<std::uint64_t>(*value) : UINT64_MAX >> 1;
    };
    const std::string_view from = trim(text.substr(0, dash)), to = trim(text.substr(dash + 1));
    const auto first = number(from), last = number(to);
    if ((!from.empty() && !first) || (!to.empty() && !last) || (!first && !last))
        return std::nullopt;
    if (first && last && *last < *first) return std::nullopt;
    const auto beyond = [&] {
        throw_error(Code::invalid, "InvalidRange",
                    "The requested range is not satisfiable: {} of an object of {} bytes", text,
                    size);
    };
    if (!first) {  // the last n bytes
        if (*last == 0 || size == 0) beyond();
        const std::uint64_t length = std::min(*last, size);
        return ByteRange{size - length, length};
    }
    if (*first >= size) beyond();
    const std::uint64_t end = last ? std::min(*last + 1, size) : size;
    return ByteRange{*first, end - *first};
}

}  // namespace ty::api::s3
