// SPDX-License-Identifier: Apache-2.0
// The pieces of Signature Version 4 that signing and verifying share: what a request claims, the
// canonical form of its parts, and the key derivation. Private to aws/.
//
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
#pragma once

#include "aws/aws.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::aws {

inline constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Everything a request says about its signature; nothing in it is trusted yet.
struct Claim {
    Scope scope;
    std::string signed_headers;  ///< "host;x-amz-date", as sent
    std::string signature;       ///< 64 lower-case hex digits
    std::string amz_date;        ///< "20260131T120000Z"
    std::string session_token;
    std::optional<long long> expires;  ///< seconds; presigned only
};
/// nullopt: unsigned. Throws denied AuthorizationHeaderMalformed /
/// AuthorizationQueryParametersError, invalid InvalidRequest.
std::optional<Claim> read_claim(const http::Request& request);

/// Presigned S3 URLs of the signature before version 4; `verify` turns to them.
bool is_old_presigned(const http::Request& request);
Verified verify_old_presigned(const http::Request& request, const KeyLookup& keys, Instant now);

/// How the path enters the signature: S3 signs it as sent, everybody else normalises and encodes
/// again.
std::string canonical_path(std::string_view service, std::string_view path);
/// Names and values re-encoded and sorted. A literal '+' may stand for itself or for a space.
enum class Plus { literal, space };
std::string canonical_query(std::string_view query, Plus plus, std::string_view without = {});
/// "name:value\n" for every name of `signed_headers`, then a blank line's worth of nothing.
std::string canonical_headers(const http::Headers& headers, std::string_view signed_headers);

/// The string to sign for a canonical request.
std::string string_to_sign(const Scope& scope, std::string_view amz_date,
                           std::string_view canonical);
/// "20260131/us-east-1/s3/aws4_request"
std::string credential_scope(const Scope& scope);
std::string derive_signing_key(std::string_view secret_key, const Scope& scope);
/// Hex HMAC.
std::string hmac_hex(std::string_view key, std::string_view data);

struct CanonicalParts {
    std::string_view method, path, query, headers, signed_headers, payload_hash;
};
std::string canonical_request(const CanonicalParts& parts);

}  // namespace ty::aws
