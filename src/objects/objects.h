// SPDX-License-Identifier: Apache-2.0
// Object storage behind the S3 face: buckets, objects, multipart uploads. Knows nothing of HTTP or
// XML.
//
// Crash rule: an acknowledged object is complete and durable (data and folder fsynced, then the
// index row committed); an unacknowledged one is never visible. Blobs are immutable plain files, so
// a reader keeps its version while the key is overwritten. All calls from any thread.
#pragma once

#include "base/bytes.h"
#include "base/time.h"
#include "store/store.h"
#include "sys/sys.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ty::objects {

struct Bucket {
    std::string name;
    std::string region;
    Instant created;
};

/// Headers that are stored and given back verbatim.
struct Attributes {
    std::string content_type = "binary/octet-stream";
    std::map<std::string, std::string>
        headers;  ///< cache-control, content-encoding, x-amz-server-side-encryption,
                  ///< x-amz-storage-class …
    std::map<std::string, std::string> metadata;  ///< x-amz-meta-* without the prefix, lower-case
    std::map<std::string, std::string>
        checksums;              ///< "crc32" -> base64, as given by the client and verified
    std::string checksum_type;  ///< FULL_OBJECT or COMPOSITE
    std::map<std::string, std::string> tags;
    std::vector<std::uint64_t> part_sizes;  ///< of an object uploaded in parts; set by the store
};

struct ObjectInfo {
    std::string bucket, key;
    std::uint64_t size = 0;
    std::string etag;  ///< hex md5, or "<hex>-<parts>", without quotes
    Instant modified;
    Attributes attributes;
};

/// An open version: reading goes on even when the key is deleted or replaced meanwhile.
struct OpenObject {
    ObjectInfo info;
    sys::Fd file;
};

/// Gives the next bytes of an upload, 0 at the end; may throw to abandon it.
using Source = std::function<std::size_t(std::span<std::byte>)>;

/// What the bytes must hash to; checked while streaming. Throws corrupt "BadDigest" on mismatch.
struct Expectation {
    std::optional<std::uint64_t> size;  ///< else "IncompleteBody"
    /// "crc32" | "crc32c" | "sha1" | "sha256" | "crc64nvme" | "md5" -> base64; an empty value means
    /// "compute it": a trailer will tell what it must be, or nobody does and it is only recorded.
    std::map<std::string, std::string> checksums;
    std::function<std::map<std::string, std::string>()>
        trailing;            ///< asked after the last byte (aws-chunked trailers)
    std::string sha256_hex;  ///< x-amz-content-sha256; mismatch: "XAmzContentSHA256Mismatch"
};

/// If-Match / If-None-Match of a write; checked in the committing transaction:
/// "PreconditionFailed".
struct Precondition {
    std::string if_match;        ///< etag or empty
    bool if_none_match = false;  ///< "*": key must not exist
};

struct ListQuery {
    std::string prefix, delimiter, after;  ///< `after` is exclusive
    std::size_t limit = 1000;
};
struct Listing {
    std::vector<ObjectInfo> objects;  ///< attributes not filled
    std::vector<std::string> common_prefixes;
    bool truncated = false;
    std::string next;  ///< pass as `after` for the following page
};

struct Part {
    int number = 0;
    std::string etag;
    std::uint64_t size = 0;
    Instant modified;
    std::map<std::string, std::string> checksums;
};
struct UploadInfo {
    std::string id, bucket, key;
    Instant started;
    Attributes attributes;
};

/// Errors carry S3's code as reason: NoSuchBucket, NoSuchKey, NoSuchUpload,
/// BucketAlreadyOwnedByYou, BucketNotEmpty, InvalidBucketName, KeyTooLongError, InvalidPart,
/// InvalidPartOrder, EntityTooSmall, BadDigest, IncompleteBody, PreconditionFailed; exhausted
/// "DiskFull" on a full disk.
class ObjectStore {
public:
    /// `root` holds the blobs; this store is the only one to use it. Sweeps leftovers of
    /// interrupted writes at once.
    ObjectStore(const sys::fs::path& root, store::Db& db, Clock& clock);
    ~ObjectStore();

    void create_bucket(const std::string& name, const std::string& region);
    void delete_bucket(const std::string& name);
    std::optional<Bucket> find_bucket(const std::string& name) const;
    std::vector<Bucket> list_buckets() const;

    ObjectInfo put(const std::string& bucket, const std::string& key, Attributes attributes,
                   const Source& source, const Expectation& expected = {},
                   const Precondition& condition = {});
    ObjectInfo copy(const std::string& from_bucket, const std::string& from_key,
                    const std::string& bucket, const std::string& key,
                    const std::optional<Attributes>& replace);
    std::optional<ObjectInfo> find(const std::string& bucket, const std::string& key) const;
    OpenObject open(const std::string& bucket, const std::string& key) const;
    /// Absent keys are fine.
    void remove(const std::string& bucket, const std::string& key);
    /// All in one transaction.
    void remove(const std::string& bucket, std::span<const std::string> keys);
    Listing list(const std::string& bucket, const ListQuery& query) const;
    void set_tags(const std::string& bucket, const std::string& key,
                  std::map<std::string, std::string> tags);

    /// attributes.checksum_type FULL_OBJECT or COMPOSITE and one name in attributes.checksums say
    /// which checksum the finished object is to have.
    std::string start_upload(const std::string& bucket, const std::string& key,
                             Attributes attributes);
    Part put_part(const std::string& upload, int number, const Source& source,
                  const Expectation& expected = {});
    /// `parts` in ascending order with the etags (and, where given, checksums) the client saw.
    /// `expected`: what the whole object's checksums must be, by algorithm; BadDigest otherwise.
    ObjectInfo complete_upload(const std::string& upload, const std::vector<Part>& parts,
                               const Precondition& condition = {},
                               const std::map<std::string, std::string>& expected = {});
    void abort_upload(const std::string& upload);
    std::optional<UploadInfo> find_upload(const std::string& upload) const;
    std::vector<Part> list_parts(const std::string& upload) const;
    std::vector<UploadInfo> list_uploads(const std::string& bucket,
                                         const std::string& prefix) const;

    struct Impl;  ///< named by the module's own files only

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::objects
