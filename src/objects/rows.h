// SPDX-License-Identifier: Apache-2.0
// The SQL of buckets and objects; every function runs in the caller's transaction. Private to
// objects.
#pragma once

#include "objects/blobs.h"
#include "objects/objects.h"

namespace ty::objects {

struct BucketRow {
    std::int64_t id = 0;
    Bucket bucket;
};
std::optional<BucketRow> find_bucket(store::Tx& tx, const std::string& name);
/// Throws not_found "NoSuchBucket".
std::int64_t bucket_id(store::Tx& tx, const std::string& name);

struct ObjectRow {
    ObjectInfo info;
    std::string blob;  ///< empty: inline
    std::string data;  ///< inline content, when asked for
};
enum class Content { skip, load };
std::optional<ObjectRow> find_object(store::Tx& tx, std::int64_t bucket, const std::string& key,
                                     Content content);

/// Throws "PreconditionFailed", or not_found "NoSuchKey" for If-Match on nothing.
void check_condition(const Precondition& condition, const std::optional<ObjectRow>& current);

/// Makes the row visible in place of whatever the key held; `fresh` is adopted. Returns the name of
/// the replaced file, doomed, for Blobs::remove after the commit; empty when there was none.
std::string replace_object(store::Tx& tx, std::int64_t bucket, const ObjectRow& row,
                           const Precondition& condition);

[[noreturn]] void throw_no_such_key(const std::string& bucket, const std::string& key);

}  // namespace ty::objects
