// SPDX-License-Identifier: Apache-2.0
// The door check: does this signature belong to a known key, to these bytes and to this hour?
//
// Clients disagree in two corners of the canonical form (how often a path is encoded, what '+'
// means in a query); each reading is tried before a request is refused. Every reading signs the
// same bytes.
#include "aws/signature.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::aws {

namespace {

constexpr std::chrono::minutes kSkew{15};
constexpr std::size_t kMaxCachedKeys = 1024;

[[noreturn]] void refuse(std::string_view reason, std::string message) {
    throw Error(Code::denied, std::string(reason), std::move(message));
}

/// S3 and the other services word it differently; both sentences are AWS's.
std::string skew_message(const Claim& claim, Instant then, Instant now) {
    if (claim.scope.service == "s3")
        return format(
            "The difference between the request time and the current time is too large. "
            "(request {}, server {}; correct the clock)",
            claim.amz_date, format_amz_date(now));
    const bool early = then > now;
    return format("Signature {}: {} is now {} than {} ({} {} 15 min.)",
                  early ? "not yet current" : "expired", claim.amz_date,
                  early ? "later" : "earlier", format_amz_date(early ? now + kSkew : now - kSkew),
                  format_amz_date(now), early ? '+' : '-');
}

void check_time(const Claim& claim, Instant now) {
    const auto then = parse_amz_date(claim.amz_date);
    if (!then)
        refuse(claim.expires ? "AuthorizationQueryParametersError" : "AccessDenied",
               format("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\", not "
                      "\"{}\"",
                      to_valid_utf8(claim.amz_date.substr(0, 40))));
    if (claim.amz_date.compare(0, 8, claim.scope.date) != 0)
        refuse(
            claim.expires ? "AuthorizationQueryParametersError" : "AuthorizationHeaderMalformed",
            format(
                "Invalid credential date \"{}\". This date is not the same as X-Amz-Date: \"{}\".",
                claim.scope.date, claim.amz_date.substr(0, 8)));
    if (claim.expires) {
        if (*then > now + kSkew) refuse("AccessDenied", "Request is not yet valid");
        if (now > *then + seconds(*claim.expires))
            refuse("AccessDenied",
                   format("Request has expired (signed {}, valid for {} s, server time {})",
                          claim.amz_date, *claim.expires, format_amz_date(now)));
        return;
    }
    if (*then <= now + kSkew && now <= *then + kSkew) return;
    refuse("RequestTimeTooSkewed", skew_message(claim, *then, now));
}

bool names_header(std::string_view list, std::string_view name) {
    std::size_t start = 0;
    while (start <= list.size()) {
        const auto end = std::min(list.find(';', start), list.size());
        if (equals_ignoring_case(list.substr(start, end - start), name)) return true;
        start = end + 1;
    }
    return false;
}

/// An x-amz-* header outside the signature could be added or changed on the way.
void check_signed_headers(const http::Request& request, const Claim& claim) {
    if (!names_header(claim.signed_headers, "host"))
        refuse("AccessDenied", "'Host' must be a 'SignedHeader' in the AWS Authorization.");
    for (const auto& [name, value] : request.headers) {
        if (name.size() < 6 || !equals_ignoring_case(std::string_view(name).substr(0, 6), "x-amz-"))
            continue;
        if (claim.expires && equals_ignoring_case(name, "x-amz-content-sha256")) continue;
        if (names_header(claim.signed_headers, name)) continue;
        refuse("AccessDenied",
               format("There were headers present in the request which were not signed: {}",
                      to_valid_utf8(to_lower(name))));
    }
}

bool is_payload_hash(std::string_view text) {
    if (text == kUnsignedPayload || text.starts_with("STREAMING-")) return true;
    return text.size() == 64 && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
           });
}

std::string payload_hash(const http::Request& request, const Claim& claim,
                         std::string_view body_hash) {
    if (!body_hash.empty()) return std::string(body_hash);
    const auto sent = request.headers.find("x-amz-content-sha256");
    // A presigned URL vouches for the body only when its signer signed that header.
    if (claim.expires && (!sent || !names_header(claim.signed_headers, "x-amz-content-sha256")))
        return std::string(kUnsignedPayload);
    if (!sent)
        throw_error(Code::invalid, "InvalidRequest",
                    "Missing required header for this request: x-amz-content-sha256");
    if (!is_payload_hash(*sent))
        throw_error(
            Code::invalid, "InvalidArgument",
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a "
            "valid sha256 value.");
    return std::string(*sent);
}

/// The readings of one part, most likely first; equal ones are tried once.
struct Readings {
    std::array<std::string, 2> text;
    std::size_t count = 0;
    void add(std::string reading) {
        if (count == 1 && text[0] == reading) return;
        text[count++] = std::move(reading);
    }
};

Readings read_path(const http::Request& request, const Scope& scope) {
    Readings out;
    out.add(canonical_path(scope.service, request.path));
    if (scope.service == "s3") {
        if (const auto decoded = percent_decode(request.path))
            out.add(percent_encode(*decoded, Slash::keep));
    } else {
        out.add(request.path.empty() ? "/" : request.path);
    }
    return out;
}

Readings read_query(const http::Request& request, const Claim& claim) {
    const std::string_view without = claim.expires ? "X-Amz-Signature" : "";
    Readings out;
    out.add(canonical_query(request.query, Plus::literal, without));
    if (request.query.find('+') != std::string::npos)
        out.add(canonical_query(request.query, Plus::space, without));
    return out;
}

bool matches(const http::Request& request, const Claim& claim, std::string_view key,
             std::string_view hash) {
    const std::string headers = canonical_headers(request.headers, claim.signed_headers);
    const Readings paths = read_path(request, claim.scope), queries = read_query(request, claim);
    for (std::size_t p = 0; p < paths.count; ++p) {
        for (std::size_t q = 0; q < queries.count; ++q) {
            const std::string canonical = canonical_request({.method = request.method,
                                                             .path = paths.text[p],
                                                             .query = queries.text[q],
                                                             .headers = headers,
                                                             .signed_headers = claim.signed_headers,
                                                             .payload_hash = hash});
            const std::string expected =
                hmac_hex(key, string_to_sign(claim.scope, claim.amz_date, canonical));
            if (equal_in_constant_time(expected, claim.signature)) return true;
        }
    }
    return false;
}

}  // namespace

std::string SigningKeys::get(const Credentials& credentials, const Scope& scope) {
    std::string name;
    name.reserve(96);
    for (const std::string* part :
         {&scope.date, &scope.region, &scope.service, &scope.access_key}) {
        name += *part;
        name += '\n';
    }
    const std::string known = entries_.with([&](const Entries& entries) {
        const auto found = entries.find(name);
        return found != entries.end() && found->second.secret_key == credentials.secret_key
                   ? found->second.key
                   : std::string();
    });
    if (!known.empty()) return known;
    std::string key = derive_signing_key(credentials.secret_key, scope);
    entries_.with([&](Entries& entries) {
        // Scopes are the client's to choose: a full table starts over rather than grows.
        if (entries.size() >= kMaxCachedKeys) entries.clear();
        entries[name] = Entry{credentials.secret_key, key};
    });
    return key;
}

Verified verify(const http::Request& request, std::string_view body_hash, const KeyLookup& keys,
                Instant now, SigningKeys* cache) {
    std::optional<Claim> claim = read_claim(request);
    if (!claim && is_old_presigned(request)) return verify_old_presigned(request, keys, now);
    if (!claim)
        refuse("MissingAuthenticationToken",
               "Missing Authentication Token: the request is not signed");
    const auto credentials = keys(claim->scope.access_key);
    if (!credentials)
        refuse("InvalidAccessKeyId",
               format("{} (access key \"{}\")",
                      claim->scope.service == "s3"
                          ? "The AWS Access Key Id you provided does not exist in our records."
                          : "The security token included in the request is invalid.",
                      to_valid_utf8(claim->scope.access_key.substr(0, 64))));
    check_time(*claim, now);
    check_signed_headers(request, *claim);
    const std::string hash = payload_hash(request, *claim, body_hash);
    std::string key = cache != nullptr ? cache->get(*credentials, claim->scope)
                                       : derive_signing_key(credentials->secret_key, claim->scope);
    if (!matches(request, *claim, key, hash))
        refuse("SignatureDoesNotMatch",
               "The request signature we calculated does not match the signature you provided. "
               "Check your AWS Secret Access Key and signing method.");
    // A token sent with long-term keys changes nothing: the signature has proven the owner.
    if (!credentials->session_token.empty() &&
        !equal_in_constant_time(credentials->session_token, claim->session_token))
        refuse("InvalidToken", "The provided token is malformed or otherwise invalid.");
    return Verified{.scope = std::move(claim->scope),
                    .payload_hash = std::string(request.headers.get("x-amz-content-sha256")),
                    .signature = std::move(claim->signature),
                    .signing_key = std::move(key),
                    .amz_date = std::move(claim->amz_date)};
}

}  // namespace ty::aws
