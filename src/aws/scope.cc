// SPDX-License-Identifier: Apache-2.0
// Reading what a request says about its signature, from the Authorization header or the query of a
// presigned URL. Foreign bytes: everything is checked for form here and trusted by nobody yet.
#include "aws/signature.h"
#include "base/text.h"

#include <algorithm>

namespace ty::aws {

namespace {

constexpr long long kLongestExpiry = 604800;  // a week, as S3 limits it
constexpr std::string_view kQueryNeeds =
    "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
    "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.";

/// "AKID/20260131/us-east-1/s3/aws4_request"; an access key may itself contain slashes.
std::optional<Scope> parse_credential(std::string_view text) {
    const std::vector<std::string> parts = split(text, '/');
    const std::size_t n = parts.size();
    if (n < 5 || parts[n - 1] != "aws4_request") return std::nullopt;
    Scope scope;
    scope.service = parts[n - 2];
    scope.region = parts[n - 3];
    scope.date = parts[n - 4];
    scope.access_key = join(std::span(parts.data(), n - 4), "/");
    const bool digits =
        std::ranges::all_of(scope.date, [](char c) { return c >= '0' && c <= '9'; });
    if (scope.date.size() != 8 || !digits) return std::nullopt;
    if (scope.service.empty() || scope.region.empty() || scope.access_key.empty())
        return std::nullopt;
    return scope;
}

bool is_signature(std::string_view text) {
    return text.size() == 64 && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

/// Lower-case names between semicolons, none empty.
bool is_header_list(std::string_view text) {
    if (text.empty() || text.front() == ';' || text.back() == ';') return false;
    if (text.find(";;") != std::string_view::npos) return false;
    return std::ranges::all_of(
        text, [](char c) { return c > ' ' && c < 0x7F && !(c >= 'A' && c <= 'Z') && c != ':'; });
}

struct HeaderFields {
    std::string_view credential, signed_headers, signature;
};

HeaderFields split_authorization(std::string_view text) {
    HeaderFields fields;
    std::size_t start = 0;
    while (start < text.size()) {
        const auto end = std::min(text.find(',', start), text.size());
        const std::string_view item = trim(text.substr(start, end - start));
        start = end + 1;
        const auto equals = item.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
        if (name == "Credential") fields.credential = value;
        if (name == "SignedHeaders") fields.signed_headers = value;
        if (name == "Signature") fields.signature = value;
    }
    return fields;
}

std::string date_of(const http::Headers& headers) {
    if (const auto date = headers.find("x-amz-date")) return std::string(trim(*date));
    if (const auto date = headers.find("date")) {
        if (parse_amz_date(trim(*date))) return std::string(trim(*date));
        if (const auto instant = parse_http_date(trim(*date))) return format_amz_date(*instant);
    }
    return {};
}

[[noreturn]] void header_malformed(std::string_view what) {
    throw_error(Code::denied, "AuthorizationHeaderMalformed",
                "The authorization header is malformed; {}", what);
}
[[noreturn]] void query_malformed(std::string_view what) {
    throw_error(Code::denied, "AuthorizationQueryParametersError", "{}", what);
}

Claim read_header(const http::Request& request, std::string_view authorization) {
    if (!authorization.starts_with(kAlgorithm) ||
        (authorization.size() > kAlgorithm.size() && authorization[kAlgorithm.size()] != ' '))
        throw_error(Code::invalid, "InvalidRequest",
                    "The authorization mechanism you have provided is not supported. Please use "
                    "AWS4-HMAC-SHA256.");
    const HeaderFields fields = split_authorization(authorization.substr(kAlgorithm.size()));
    auto scope = parse_credential(fields.credential);
    if (!scope)
        header_malformed(
            "the Credential is mal-formed; expecting "
            "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".");
    if (!is_header_list(fields.signed_headers))
        header_malformed(
            "SignedHeaders must list lower-case header names separated by semicolons.");
    if (!is_signature(fields.signature))
        header_malformed("Signature must be 64 lower-case hexadecimal digits.");
    Claim claim;
    claim.scope = *std::move(scope);
    claim.signed_headers = fields.signed_headers;
    claim.signature = fields.signature;
    claim.amz_date = date_of(request.headers);
    claim.session_token = std::string(request.headers.get("x-amz-security-token"));
    if (claim.amz_date.empty())
        throw_error(Code::denied, "AccessDenied",
                    "AWS authentication requires a valid Date or x-amz-date header");
    return claim;
}

Claim read_query(const http::Request& request) {
    Claim claim;
    std::string algorithm, credential, expires;
    for (auto& [name, value] : parse_query(request.query)) {
        if (name == "X-Amz-Algorithm")
            algorithm = std::move(value);
        else if (name == "X-Amz-Credential")
            credential = std::move(value);
        else if (name == "X-Amz-Date")
            claim.amz_date = std::move(value);
        else if (name == "X-Amz-Expires")
            expires = std::move(value);
        else if (name == "X-Amz-SignedHeaders")
            claim.signed_headers = std::move(value);
        else if (name == "X-Amz-Signature")
            claim.signature = std::move(value);
        else if (name == "X-Amz-Security-Token")
            claim.session_token = std::move(value);
    }
    if (algorithm.empty() || credential.empty() || expires.empty() || claim.amz_date.empty() ||
        claim.signed_headers.empty() || claim.signature.empty())
        query_malformed(kQueryNeeds);
    if (algorithm != kAlgorithm)
        query_malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    auto scope = parse_credential(credential);
    if (!scope)
        query_malformed(
            "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; expecting "
            "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".");
    if (!is_header_list(claim.signed_headers))
        query_malformed("X-Amz-SignedHeaders must list lower-case header names");
    if (!is_signature(claim.signature))
        query_malformed("X-Amz-Signature must be 64 lower-case hexadecimal digits");
    claim.expires = parse_int(expires);
    if (!claim.expires) query_malformed("X-Amz-Expires should be a number");
    if (*claim.expires < 0) query_malformed("X-Amz-Expires must be non-negative");
    if (*claim.expires > kLongestExpiry)
        query_malformed(
            "X-Amz-Expires must be less than a week (in seconds) that is given in X-Amz-Expires; "
            "at most 604800");
    claim.scope = *std::move(scope);
    claim.scope.presigned = true;
    return claim;
}

bool is_presigned(std::string_view query) {
    return query.find("X-Amz-Credential=") != std::string_view::npos ||
           query.find("X-Amz-Signature=") != std::string_view::npos;
}

}  // namespace

std::optional<Claim> read_claim(const http::Request& request) {
    const auto authorization = request.headers.find("authorization");
    if (authorization) return read_header(request, trim(*authorization));
    if (is_presigned(request.query)) return read_query(request);
    return std::nullopt;
}

std::optional<Scope> find_scope(const http::Request& request) {
    if (const auto authorization = request.headers.find("authorization"))
        return parse_credential(
            split_authorization(
                trim(*authorization)
                    .substr(std::min(trim(*authorization).size(), trim(*authorization).find(' '))))
                .credential);
    if (!is_presigned(request.query)) return std::nullopt;
    for (const auto& [name, value] : parse_query(request.query)) {
        if (name != "X-Amz-Credential") continue;
        auto scope = parse_credential(value);
        if (scope) scope->presigned = true;
        return scope;
    }
    return std::nullopt;
}

}  // namespace ty::aws
