// SPDX-License-Identifier: Apache-2.0
// The body of a request with what its headers promise about it: length, checksums, payload hash.
// Private to api/s3.
#pragma once

#include "api/s3/s3.h"

#include <memory>
#include <set>

namespace ty::api::s3 {

/// The name after "x-amz-checksum-" in the object store's spelling; nullopt for others.
std::optional<std::string> checksum_of_header(std::string_view header);
/// "CRC32" -> "crc32". Throws invalid "InvalidRequest" for an unknown algorithm.
std::string checksum_of_algorithm(std::string_view algorithm);
/// "crc32" -> "x-amz-checksum-crc32", "ChecksumCRC32".
std::string checksum_header(std::string_view name);
std::string checksum_element(std::string_view name);
void add_checksum_headers(http::Headers& headers,
                          const std::map<std::string, std::string>& checksums);
void add_checksum_elements(aws::XmlWriter& xml,
                           const std::map<std::string, std::string>& checksums);

/// Checksums sent as headers, by name; more than one is refused ("InvalidRequest").
std::map<std::string, std::string> checksum_headers(const S3Call& call);

class Upload {
public:
    /// Reads headers only; the body is first touched by source().
    explicit Upload(S3Call& call, ChecksumOf checksum = ChecksumOf::body);
    objects::Expectation expectation() const;
    objects::Source source();
    /// True when any integrity header or trailer was announced.
    bool is_protected() const { return protected_; }

private:
    std::shared_ptr<aws::PayloadReader> reader_;
    objects::Expectation expected_;
    bool protected_ = false;
};

/// Check a body that was read whole against signature and headers. Throws corrupt "BadDigest",
/// invalid "XAmzContentSHA256Mismatch".
void verify(std::string_view text, const objects::Expectation& expected);

}  // namespace ty::api::s3
