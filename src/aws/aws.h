// SPDX-License-Identifier: Apache-2.0
// Speaking AWS on either side of the wire: signatures, body framings, protocols' error forms, and a
// small S3 client for agent and CLI.
#pragma once

#include "aws/xml.h"
#include "base/error.h"
#include "base/sync.h"
#include "base/time.h"
#include "http/http.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ty::aws {

struct Credentials {
    std::string access_key, secret_key, session_token;
};

/// What the signature says about a request before it is verified.
struct Scope {
    std::string access_key, date, region, service;
    bool presigned = false;
};
/// From the Authorization header or X-Amz-Credential; nullopt for unsigned requests.
std::optional<Scope> find_scope(const http::Request& request);

struct Verified {
    Scope scope;
    std::string payload_hash;  ///< x-amz-content-sha256 as sent; empty when absent
    std::string signature;     ///< seed of a signed chunk chain
    std::string signing_key;   ///< raw, for chunk signatures
    std::string amz_date;
};
/// Secret of an access key; nullopt: unknown.
using KeyLookup = std::function<std::optional<Credentials>(const std::string& access_key)>;

/// Remembers signing keys derived from (access key, date, region, service), so that a busy client
/// costs one HMAC per request instead of five. Bounded; any thread.
class SigningKeys {
public:
    /// The raw 32 bytes; derived on the first call of a day.
    std::string get(const Credentials& credentials, const Scope& scope);

private:
    struct Entry {
        std::string secret_key, key;
    };
    using Entries = std::unordered_map<std::string, Entry>;
    Sync<Entries> entries_;
};

/// SigV4, header or presigned form, any service; and S3 URLs presigned the older way. `body_hash`
/// is the hex SHA-256 of the body where the caller has read it (JSON and query services); empty:
/// x-amz-content-sha256 is taken (S3). Throws denied with S3's codes as reason:
/// MissingAuthenticationToken (unsigned), InvalidAccessKeyId, SignatureDoesNotMatch,
/// RequestTimeTooSkewed (15 min), AccessDenied (presigned and out of time, or a header left out of
/// the signature), InvalidToken, AuthorizationHeaderMalformed, AuthorizationQueryParametersError;
/// invalid "InvalidRequest" for other signature algorithms. `cache` may be null.
Verified verify(const http::Request& request, std::string_view body_hash, const KeyLookup& keys,
                Instant now, SigningKeys* cache = nullptr);

/// Adds Host-independent SigV4 headers (x-amz-date, x-amz-content-sha256, Authorization) to a
/// client request.
void sign(http::ClientRequest& request, const std::string& host, const Credentials& credentials,
          const std::string& region, const std::string& service, Instant now,
          std::string_view payload_hash);
/// Presigned URL for GET/PUT.
std::string presign(const std::string& method, const http::Url& endpoint, const std::string& target,
                    const Credentials& credentials, const std::string& region, seconds expires,
                    Instant now);

/// Body of an S3 upload whatever its framing: plain, aws-chunked unsigned with trailer, or signed
/// chunks (each signature checked). trailers() is valid after the last byte.
class PayloadReader {
public:
    PayloadReader(http::Request& request, const Verified& verified);
    ~PayloadReader();
    /// Decoded bytes; 0 at the end. Throws denied SignatureDoesNotMatch, invalid IncompleteBody /
    /// MalformedTrailerError.
    std::size_t read(std::span<std::byte> into);
    /// Decoded length when known: Content-Length, or x-amz-decoded-content-length.
    std::optional<std::uint64_t> length() const;
    const std::map<std::string, std::string>& trailers() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// "aws" | "aws-cn" | "aws-us-gov", and "amazonaws.com" | "amazonaws.com.cn", from a region's name.
std::string partition_of(std::string_view region);
std::string dns_suffix_of(std::string_view region);
/// True for hosts of AWS's own DNS zones (amazonaws.com, amazonaws.com.cn, api.aws, on.aws …).
bool is_aws_host(std::string_view host);
/// {service, region, bucket for virtual-host S3} from "sts.us-east-1.amazonaws.com"; empty parts
/// when not said.
struct HostParts {
    std::string service, region, bucket;
};
HostParts parse_aws_host(std::string_view host);

struct S3Uri {
    std::string bucket, key;
};
/// "s3://b/k", also "S3://" as old articles write it. Throws invalid naming the text.
S3Uri parse_s3_uri(std::string_view text);

/// S3 over one keep-alive connection; one per thread. Retries safe calls on unavailable with
/// back-off until the deadline.
class S3Client {
public:
    S3Client(http::Url endpoint, Credentials credentials, std::string region, Clock& clock);
    ~S3Client();

    struct Object {
        std::string key;
        std::uint64_t size = 0;
        std::string etag;
    };
    /// All keys with the prefix, pages followed.
    std::vector<Object> list(const std::string& bucket, const std::string& prefix, Deadline by,
                             const std::stop_token& stop);
    struct Head {
        std::uint64_t size = 0;
        std::string etag;
    };
    std::optional<Head> head(const std::string& bucket, const std::string& key, Deadline by,
                             const std::stop_token& stop);
    using Sink = std::function<void(std::span<const std::byte>)>;
    /// Range is [offset, offset+length); etag guards against replacement (PreconditionFailed).
    void get(const std::string& bucket, const std::string& key, std::uint64_t offset,
             std::uint64_t length, const std::string& etag, const Sink& sink, Deadline by,
             const std::stop_token& stop);
    void put(const std::string& bucket, const std::string& key, std::string_view body, Deadline by,
             const std::stop_token& stop);
    std::string start_upload(const std::string& bucket, const std::string& key, Deadline by,
                             const std::stop_token& stop);
    std::string put_part(const std::string& bucket, const std::string& key,
                         const std::string& upload, int number, std::string_view body, Deadline by,
                         const std::stop_token& stop);
    /// A part made of a range of another object, without its bytes travelling; the etag guards the
    /// source. Throws unsupported where the storage cannot.
    struct Range {
        std::string bucket, key, etag;
        std::uint64_t offset = 0, length = 0;
    };
    std::string put_part_copy(const std::string& bucket, const std::string& key,
                              const std::string& upload, int number, const Range& from, Deadline by,
                              const std::stop_token& stop);
    /// A whole object under another name; `etag` of the source, when not empty, guards it.
    void copy(const std::string& from_bucket, const std::string& from_key, const std::string& etag,
              const std::string& bucket, const std::string& key, Deadline by,
              const std::stop_token& stop);
    /// Absent ones count as removed.
    void remove(const std::string& bucket, const std::string& key, Deadline by,
                const std::stop_token& stop);
    void complete_upload(const std::string& bucket, const std::string& key,
                         const std::string& upload, const std::vector<std::string>& etags,
                         Deadline by, const std::stop_token& stop);
    void abort_upload(const std::string& bucket, const std::string& key, const std::string& upload,
                      Deadline by, const std::stop_token& stop);

    /// Called before every request; what it throws is treated as the request's own failure:
    /// unavailable is waited out.
    void set_gate(std::function<void()> gate);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::aws
