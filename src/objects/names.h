// SPDX-License-Identifier: Apache-2.0
// What buckets and objects may be called, in S3's rules and error words. Private to objects.
#pragma once

#include <string>

namespace ty::objects {

/// Throws invalid "InvalidBucketName".
void check_bucket_name(const std::string& name);
/// 1 to 1024 bytes of UTF-8. Throws invalid "KeyTooLongError" or "InvalidArgument".
void check_key(const std::string& key);

}  // namespace ty::objects
