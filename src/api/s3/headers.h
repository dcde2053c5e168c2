// SPDX-License-Identifier: Apache-2.0
// Object attributes in request and response headers, conditions and ranges of reads. Private to
// api/s3.
#pragma once

#include "api/s3/s3.h"

namespace ty::api::s3 {

/// What an upload's headers say about the object. Throws invalid "MetadataTooLarge", "InvalidTag",
/// unsupported for customer-provided encryption keys.
objects::Attributes attributes_of(const S3Call& call);
/// "a=1&b=2", checked.
std::map<std::string, std::string> parse_tag_header(std::string_view text);
/// x-amz-server-side-encryption and its companions, as an upload echoes them.
void add_encryption_headers(http::Headers& headers, const objects::Attributes& attributes);

/// All headers of an object's answer but its length and range.
void add_object_headers(http::Headers& headers, const S3Call& call,
                        const objects::ObjectInfo& info);

/// If-Match of a write.
objects::Precondition write_condition(const S3Call& call);

/// Names of the four conditional headers; "" or "x-amz-copy-source-" before.
/// Returns false for "not modified"; throws "PreconditionFailed".
bool check_read_conditions(const S3Call& call, std::string_view prefix,
                           const objects::ObjectInfo& info);

struct ByteRange {
    std::uint64_t offset = 0, length = 0;
};
/// nullopt: no range, or none that is understood: the whole object. Throws invalid "InvalidRange"
/// when nothing of the object lies in it.
std::optional<ByteRange> parse_range(std::string_view text, std::uint64_t size);

}  // namespace ty::api::s3
