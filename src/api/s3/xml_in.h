// SPDX-License-Identifier: Apache-2.0
// Request documents of S3 as plain structs. Foreign bytes: everything that is not the expected
// document throws invalid "MalformedXML". Private to api/s3.
#pragma once

#include "objects/objects.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ty::api::s3 {

/// CreateBucketConfiguration; empty when the document is empty or names no location.
std::string parse_location_constraint(std::string_view xml);

struct DeleteRequest {
    struct Entry {
        std::string key, version;
    };
    std::vector<Entry> entries;
    bool quiet = false;
};
/// Delete, 1 to 1000 objects.
DeleteRequest parse_delete(std::string_view xml);

/// CompleteMultipartUpload; etags without quotes, checksums by the object store's names.
std::vector<objects::Part> parse_completed_parts(std::string_view xml);

/// Tagging. Throws also invalid "InvalidTag" (lengths, doubled keys) and "BadRequest" (over 10).
std::map<std::string, std::string> parse_tagging(std::string_view xml);
/// The rules of S3 for a tag set, wherever it came from.
void check_tags(const std::vector<std::pair<std::string, std::string>>& tags);

}  // namespace ty::api::s3
