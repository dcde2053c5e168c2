// SPDX-License-Identifier: Apache-2.0
// The client's half of Signature Version 4: headers for a request, or a presigned URL.
#include "aws/signature.h"
#include "base/text.h"

#include <algorithm>
#include <map>

namespace ty::aws {

namespace {

bool joins_signature(std::string_view name) {
    return name == "host" || name == "content-type" || name == "content-md5" || name == "range" ||
           name == "if-match" || name == "if-none-match" || name.starts_with("x-amz-");
}

struct Target {
    std::string_view path, query;
};
Target split_target(std::string_view target) {
    const auto mark = std::min(target.find('?'), target.size());
    return {target.substr(0, mark),
            mark < target.size() ? target.substr(mark + 1) : std::string_view{}};
}

Scope make_scope(const Credentials& credentials, const std::string& region,
                 const std::string& service, std::string_view amz_date) {
    return {credentials.access_key, std::string(amz_date.substr(0, 8)), region, service, false};
}

std::string host_of(const http::Url& url) {
    const bool usual =
        (url.scheme == "http" && url.port == 80) || (url.scheme == "https" && url.port == 443);
    return usual ? url.host : url.host + ':' + std::to_string(url.port);
}

}  // namespace

void sign(http::ClientRequest& request, const std::string& host, const Credentials& credentials,
          const std::string& region, const std::string& service, Instant now,
          std::string_view payload_hash) {
    const std::string date = format_amz_date(now);
    const Scope scope = make_scope(credentials, region, service, date);
    request.headers.remove("authorization");
    request.headers.set("x-amz-date", date);
    request.headers.set("x-amz-content-sha256", std::string(payload_hash));
    if (!credentials.session_token.empty())
        request.headers.set("x-amz-security-token", credentials.session_token);

    std::map<std::string, std::string> fields{{"host", host}};
    for (const auto& [name, value] : request.headers)
        if (std::string lower = to_lower(name); lower != "host" && joins_signature(lower))
            fields.emplace(std::move(lower), value);
    http::Headers headers;
    std::string names;
    for (const auto& [name, value] : fields) {
        headers.add(name, value);
        names += (names.empty() ? "" : ";") + name;
    }
    const Target target = split_target(request.target);
    const std::string path = canonical_path(service, target.path);
    const std::string query = canonical_query(target.query, Plus::literal);
    const std::string lines = canonical_headers(headers, names);
    const std::string canonical = canonical_request({.method = request.method,
                                                     .path = path,
                                                     .query = query,
                                                     .headers = lines,
                                                     .signed_headers = names,
                                                     .payload_hash = payload_hash});
    const std::string signature = hmac_hex(derive_signing_key(credentials.secret_key, scope),
                                           string_to_sign(scope, date, canonical));
    request.headers.set("Authorization",
                        format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                               credentials.access_key, credential_scope(scope), names, signature));
}

std::string presign(const std::string& method, const http::Url& endpoint, const std::string& target,
                    const Credentials& credentials, const std::string& region, seconds expires,
                    Instant now) {
    const std::string date = format_amz_date(now), host = host_of(endpoint);
    const Scope scope = make_scope(credentials, region, "s3", date);
    const std::string full = endpoint.path + target;
    const Target parts = split_target(full);
    std::string query(parts.query);
    const auto add = [&query](std::string_view name, std::string_view value) {
        if (!query.empty()) query += '&';
        query += name;
        query += '=';
        query += percent_encode(value);
    };
    add("X-Amz-Algorithm", kAlgorithm);
    add("X-Amz-Credential", credentials.access_key + '/' + credential_scope(scope));
    add("X-Amz-Date", date);
    add("X-Amz-Expires", std::to_string(expires.count()));
    if (!credentials.session_token.empty()) add("X-Amz-Security-Token", credentials.session_token);
    add("X-Amz-SignedHeaders", "host");
    const std::string path = canonical_path("s3", parts.path),
                      canonical_pairs = canonical_query(query, Plus::literal);
    const std::string lines = "host:" + host + '\n';
    const std::string canonical = canonical_request({.method = method,
                                                     .path = path,
                                                     .query = canonical_pairs,
                                                     .headers = lines,
                                                     .signed_headers = "host",
                                                     .payload_hash = kUnsignedPayload});
    add("X-Amz-Signature", hmac_hex(derive_signing_key(credentials.secret_key, scope),
                                    string_to_sign(scope, date, canonical)));
    return format("{}://{}{}?{}", endpoint.scheme, host, path, query);
}

}  // namespace ty::aws
