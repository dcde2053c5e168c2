// SPDX-License-Identifier: Apache-2.0
// Canonical forms of a request's parts and the HMAC chain (signature.h). Hot: every request passes
// here once, so each part is built into one reserved string.
#include "aws/signature.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>

namespace ty::aws {

namespace {

/// Dot segments and doubled slashes removed, a trailing slash kept (RFC 3986 5.2.4 on the path as
/// sent).
std::string normalise_path(std::string_view path) {
    std::vector<std::string_view> kept;
    const bool trailing = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    std::size_t start = 0;
    while (start < path.size()) {
        const auto end = std::min(path.find('/', start), path.size());
        const std::string_view segment = path.substr(start, end - start);
        if (segment == "..") {
            if (!kept.empty()) kept.pop_back();
        } else if (!segment.empty() && segment != ".") {
            kept.push_back(segment);
        }
        start = end + 1;
    }
    std::string out;
    for (const std::string_view segment : kept) {
        out += '/';
        out += segment;
    }
    if (trailing || out.empty()) out += '/';
    return out;
}

std::string recode(std::string_view text, Plus plus) {
    std::string decoded = plus == Plus::space ? replace_all(text, "+", "%20") : std::string(text);
    // A broken escape is signed as the text it is.
    return percent_encode(percent_decode(decoded).value_or(decoded));
}

/// Leading and trailing blanks removed, runs of blanks inside become one.
void append_collapsed(std::string& out, std::string_view value) {
    bool blank = false;
    for (const char c : trim(value)) {
        if (c == ' ') {
            blank = true;
            continue;
        }
        if (blank) out += ' ';
        blank = false;
        out += c;
    }
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return as_bytes(text);
}

std::string raw(const Sha256Digest& digest) {
    return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::string canonical_path(std::string_view service, std::string_view path) {
    if (service == "s3") return path.empty() ? "/" : std::string(path);
    if (path.empty() || path == "/") return "/";
    return percent_encode(normalise_path(path), Slash::keep);
}

std::string canonical_query(std::string_view query, Plus plus, std::string_view without) {
    if (query.empty()) return {};
    std::vector<std::pair<std::string, std::string>> pairs;
    std::size_t start = 0;
    while (start <= query.size()) {
        const auto end = std::min(query.find('&', start), query.size());
        const std::string_view item = query.substr(start, end - start);
        start = end + 1;
        if (item.empty()) continue;
        const auto equals = std::min(item.find('='), item.size());
        std::string name = recode(item.substr(0, equals), plus);
        if (!without.empty() && name == without) continue;
        pairs.emplace_back(std::move(name),
                           equals < item.size() ? recode(item.substr(equals + 1), plus) : "");
    }
    std::ranges::sort(pairs);
    std::string out;
    out.reserve(query.size() + 16);
    for (const auto& [name, value] : pairs) {
        if (!out.empty()) out += '&';
        out += name;
        out += '=';
        out += value;
    }
    return out;
}

std::string canonical_headers(const http::Headers& headers, std::string_view signed_headers) {
    std::string out;
    out.reserve(512);
    std::size_t start = 0;
    while (start <= signed_headers.size()) {
        const auto end = std::min(signed_headers.find(';', start), signed_headers.size());
        const std::string_view name = signed_headers.substr(start, end - start);
        start = end + 1;
        out += name;
        out += ':';
        bool first = true;
        for (const auto& [key, value] : headers) {
            if (!equals_ignoring_case(key, name)) continue;
            if (!first) out += ',';
            first = false;
            append_collapsed(out, value);
        }
        out += '\n';
    }
    return out;
}

std::string canonical_request(const CanonicalParts& parts) {
    std::string out;
    out.reserve(parts.method.size() + parts.path.size() + parts.query.size() +
                parts.headers.size() + parts.signed_headers.size() + parts.payload_hash.size() + 8);
    out += parts.method;
    out += '\n';
    out += parts.path;
    out += '\n';
    out += parts.query;
    out += '\n';
    out += parts.headers;
    out += '\n';
    out += parts.signed_headers;
    out += '\n';
    out += parts.payload_hash;
    return out;
}

std::string credential_scope(const Scope& scope) {
    return scope.date + '/' + scope.region + '/' + scope.service + "/aws4_request";
}

std::string string_to_sign(const Scope& scope, std::string_view amz_date,
                           std::string_view canonical) {
    std::string out(kAlgorithm);
    out.reserve(200);
    out += '\n';
    out += amz_date;
    out += '\n';
    out += credential_scope(scope);
    out += '\n';
    out += sha256_hex(canonical);
    return out;
}

std::string derive_signing_key(std::string_view secret_key, const Scope& scope) {
    const std::string start = "AWS4" + std::string(secret_key);
    const Sha256Digest date = hmac_sha256(bytes_of(start), scope.date);
    const Sha256Digest region = hmac_sha256(date, scope.region);
    const Sha256Digest service = hmac_sha256(region, scope.service);
    return raw(hmac_sha256(service, "aws4_request"));
}

std::string hmac_hex(std::string_view key, std::string_view data) {
    return to_hex(hmac_sha256(as_bytes(key), data));
}

}  // namespace ty::aws
