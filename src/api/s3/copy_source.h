// SPDX-License-Identifier: Apache-2.0
// The x-amz-copy-source header: "/bucket/key", percent-encoded, with or without the first slash.
// Private to api/s3.
#pragma once

#include <string>
#include <string_view>

namespace ty::api::s3 {

struct CopySource {
    std::string bucket, key;
};
/// Throws invalid "InvalidArgument"; not_found "NoSuchVersion" for a version other than null.
CopySource parse_copy_source(std::string_view header);

}  // namespace ty::api::s3
