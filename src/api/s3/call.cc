// SPDX-License-Identifier: Apache-2.0
#include "api/s3/payload.h"
#include "api/s3/s3.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::s3 {

Query::Query(std::string_view text) : fields_(parse_query(text)) {}

bool Query::has(std::string_view name) const {
    return std::ranges::any_of(fields_, [&](const auto& field) { return field.first == name; });
}

const std::string& Query::get(std::string_view name) const {
    static const std::string kNone;
    const auto found =
        std::ranges::find_if(fields_, [&](const auto& field) { return field.first == name; });
    return found != fields_.end() ? found->second : kNone;
}

std::size_t Query::count(std::string_view name, std::size_t otherwise, std::size_t most) const {
    const std::string& text = get(name);
    if (text.empty()) return otherwise;
    const auto value = parse_int(text);
    if (!value || *value < 0 || *value > INT32_MAX)
        throw_error(Code::invalid, "InvalidArgument",
                    "the parameter {} must be a whole number from 0 to {}, not \"{}\"", name,
                    INT32_MAX, to_valid_utf8(truncate_utf8(text, 40)));
    return std::min(static_cast<std::size_t>(*value), most);
}

S3Call make_call(Call& call) {
    const auto path = percent_decode(call.request.path);
    if (!path || !is_valid_utf8(*path))
        throw_error(Code::invalid, "InvalidURI", "the path is not percent-encoded UTF-8: {}",
                    to_valid_utf8(truncate_utf8(call.request.path, 200)));
    S3Call out{.call = call, .bucket = {}, .key = {}, .query = Query(call.request.query)};
    const std::string_view rest = std::string_view(*path).substr(path->starts_with('/') ? 1 : 0);
    const auto slash = rest.find('/');
    out.bucket = rest.substr(0, slash);
    if (slash != std::string_view::npos) out.key = rest.substr(slash + 1);
    return out;
}

std::string read_document(S3Call& call, Bytes limit, ChecksumOf checksum) {
    Upload upload(call, checksum);
    objects::Expectation expected = upload.expectation();
    std::string text;
    std::string buffer(16 << 10, '\0');
    const std::span<std::byte> room =
        std::as_writable_bytes(std::span(buffer.data(), buffer.size()));
    while (const std::size_t n = upload.source()(room)) {
        if (text.size() + n > limit.count())
            throw_error(Code::invalid, "MalformedXML", "the request document is larger than {}",
                        to_string(limit));
        text.append(buffer, 0, n);
    }
    verify(text, expected);
    return text;
}

http::Response xml_reply(aws::XmlWriter&& xml) {
    http::Response response;
    response.headers.add("Content-Type", "application/xml");
    response.body = std::move(xml).finish();
    return response;
}

http::Response empty_reply(int status) {
    http::Response response;
    response.status = status;
    return response;
}

std::string quote_etag(std::string_view etag) {
    return fmt::format("\"{}\"", etag);
}

std::string unquote_etag(std::string_view etag) {
    etag = trim(etag);
    if (etag.starts_with("W/")) etag.remove_prefix(2);
    if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
        etag = etag.substr(1, etag.size() - 2);
    return std::string(etag);
}

std::string owner_id(const S3Call& call) {
    return sha256_hex(call.account());
}

void add_owner(aws::XmlWriter& xml, std::string_view element, const S3Call& call) {
    xml.open(element).element("ID", owner_id(call)).element("DisplayName", call.account()).close();
}

}  // namespace ty::api::s3
