// SPDX-License-Identifier: Apache-2.0
// The S3 face: method, level and sub-resource -> operation. One table is both the dispatch and what
// the compatibility page says.
#include "api/coverage.h"
#include "api/s3/s3.h"
#include "base/text.h"

#include <array>

namespace ty::api {
namespace s3 {
namespace {

enum class Level { service, bucket, object };

using Operation = http::Response (*)(S3Call&);

/// The first row that fits wins, so rows that ask for more come first. `handle` is null for
/// operations that are refused by name.
struct Row {
    std::string_view method;
    Level level;
    std::string_view parameter;  ///< query parameter that must be there; empty: none
    std::string_view header;     ///< request header that must be there; empty: none
    Operation handle;
    std::string_view name, state, note;
};

constexpr std::string_view kUnset = "Answers as for a bucket where it was never set.";
constexpr auto B = Level::bucket;
constexpr auto O = Level::object;
constexpr auto kSetting = get_bucket_setting;

constexpr std::array kRows{
    Row{"GET", Level::service, "", "", list_buckets, "ListBuckets", "full", ""},

    Row{"GET", B, "location", "", get_bucket_location, "GetBucketLocation", "full", ""},
    Row{"GET", B, "list-type", "", list_objects_v2, "ListObjectsV2", "full", ""},
    Row{"GET", B, "versions", "", list_object_versions, "ListObjectVersions", "partial",
        "Every object has the one version null."},
    Row{"GET", B, "uploads", "", list_multipart_uploads, "ListMultipartUploads", "partial",
        "The delimiter is ignored."},
    Row{"GET", B, "acl", "", get_acl, "GetBucketAcl", "partial", "The owner has full control."},
    Row{"GET", B, "versioning", "", kSetting, "GetBucketVersioning", "partial", kUnset},
    Row{"GET", B, "logging", "", kSetting, "GetBucketLogging", "partial", kUnset},
    Row{"GET", B, "notification", "", kSetting, "GetBucketNotificationConfiguration", "partial",
        kUnset},
    Row{"GET", B, "accelerate", "", kSetting, "GetBucketAccelerateConfiguration", "partial",
        kUnset},
    Row{"GET", B, "requestPayment", "", kSetting, "GetBucketRequestPayment", "partial",
        "The owner pays."},
    Row{"GET", B, "policy", "", kSetting, "GetBucketPolicy", "partial", kUnset},
    Row{"GET", B, "policyStatus", "", kSetting, "GetBucketPolicyStatus", "partial", kUnset},
    Row{"GET", B, "encryption", "", kSetting, "GetBucketEncryption", "partial", kUnset},
    Row{"GET", B, "lifecycle", "", kSetting, "GetBucketLifecycleConfiguration", "partial", kUnset},
    Row{"GET", B, "cors", "", kSetting, "GetBucketCors", "partial", kUnset},
    Row{"GET", B, "tagging", "", kSetting, "GetBucketTagging", "partial", kUnset},
    Row{"GET", B, "website", "", kSetting, "GetBucketWebsite", "partial", kUnset},
    Row{"GET", B, "replication", "", kSetting, "GetBucketReplication", "partial", kUnset},
    Row{"GET", B, "publicAccessBlock", "", kSetting, "GetPublicAccessBlock", "partial", kUnset},
    Row{"GET", B, "ownershipControls", "", kSetting, "GetBucketOwnershipControls", "partial",
        kUnset},
    Row{"GET", B, "object-lock", "", kSetting, "GetObjectLockConfiguration", "partial", kUnset},
    Row{"GET", B, "analytics", "", nullptr, "GetBucketAnalyticsConfiguration", "refused", ""},
    Row{"GET", B, "inventory", "", nullptr, "GetBucketInventoryConfiguration", "refused", ""},
    Row{"GET", B, "metrics", "", nullptr, "GetBucketMetricsConfiguration", "refused", ""},
    Row{"GET", B, "intelligent-tiering", "", nullptr, "GetBucketIntelligentTieringConfiguration",
        "refused", ""},
    Row{"GET", B, "session", "", nullptr, "CreateSession", "refused", ""},
    Row{"GET", B, "", "", list_objects, "ListObjects", "full", ""},
    Row{"HEAD", B, "", "", head_bucket, "HeadBucket", "full", ""},

    Row{"PUT", B, "acl", "", nullptr, "PutBucketAcl", "refused", ""},
    Row{"PUT", B, "versioning", "", nullptr, "PutBucketVersioning", "refused", ""},
    Row{"PUT", B, "policy", "", nullptr, "PutBucketPolicy", "refused", ""},
    Row{"PUT", B, "encryption", "", nullptr, "PutBucketEncryption", "refused", ""},
    Row{"PUT", B, "lifecycle", "", nullptr, "PutBucketLifecycleConfiguration", "refused", ""},
    Row{"PUT", B, "cors", "", nullptr, "PutBucketCors", "refused", ""},
    Row{"PUT", B, "tagging", "", nullptr, "PutBucketTagging", "refused", ""},
    Row{"PUT", B, "website", "", nullptr, "PutBucketWebsite", "refused", ""},
    Row{"PUT", B, "logging", "", nullptr, "PutBucketLogging", "refused", ""},
    Row{"PUT", B, "notification", "", nullptr, "PutBucketNotificationConfiguration", "refused", ""},
    Row{"PUT", B, "replication", "", nullptr, "PutBucketReplication", "refused", ""},
    Row{"PUT", B, "accelerate", "", nullptr, "PutBucketAccelerateConfiguration", "refused", ""},
    Row{"PUT", B, "requestPayment", "", nullptr, "PutBucketRequestPayment", "refused", ""},
    Row{"PUT", B, "publicAccessBlock", "", accept_setting, "PutPublicAccessBlock", "accepted",
        "Nothing is public here."},
    Row{"PUT", B, "ownershipControls", "", accept_setting, "PutBucketOwnershipControls", "accepted",
        "There is one owner."},
    Row{"PUT", B, "object-lock", "", nullptr, "PutObjectLockConfiguration", "refused", ""},
    Row{"PUT", B, "analytics", "", nullptr, "PutBucketAnalyticsConfiguration", "refused", ""},
    Row{"PUT", B, "inventory", "", nullptr, "PutBucketInventoryConfiguration", "refused", ""},
    Row{"PUT", B, "metrics", "", nullptr, "PutBucketMetricsConfiguration", "refused", ""},
    Row{"PUT", B, "", "", create_bucket, "CreateBucket", "full", "Any region; ACLs are ignored."},

    Row{"DELETE", B, "policy", "", nullptr, "DeleteBucketPolicy", "refused", ""},
    Row{"DELETE", B, "encryption", "", nullptr, "DeleteBucketEncryption", "refused", ""},
    Row{"DELETE", B, "lifecycle", "", nullptr, "DeleteBucketLifecycle", "refused", ""},
    Row{"DELETE", B, "cors", "", nullptr, "DeleteBucketCors", "refused", ""},
    Row{"DELETE", B, "tagging", "", nullptr, "DeleteBucketTagging", "refused", ""},
    Row{"DELETE", B, "website", "", nullptr, "DeleteBucketWebsite", "refused", ""},
    Row{"DELETE", B, "replication", "", nullptr, "DeleteBucketReplication", "refused", ""},
    Row{"DELETE", B, "publicAccessBlock", "", nullptr, "DeletePublicAccessBlock", "refused", ""},
    Row{"DELETE", B, "ownershipControls", "", nullptr, "DeleteBucketOwnershipControls", "refused",
        ""},
    Row{"DELETE", B, "analytics", "", nullptr, "DeleteBucketAnalyticsConfiguration", "refused", ""},
    Row{"DELETE", B, "inventory", "", nullptr, "DeleteBucketInventoryConfiguration", "refused", ""},
    Row{"DELETE", B, "metrics", "", nullptr, "DeleteBucketMetricsConfiguration", "refused", ""},
    Row{"DELETE", B, "", "", delete_bucket, "DeleteBucket", "full", ""},
    Row{"POST", B, "delete", "", delete_objects, "DeleteObjects", "full", ""},
    Row{"POST", B, "", "", nullptr, "PostObject", "refused", "Browser form uploads."},

    Row{"GET", O, "uploadId", "", list_parts, "ListParts", "full", ""},
    Row{"GET", O, "tagging", "", get_object_tagging, "GetObjectTagging", "full", ""},
    Row{"GET", O, "attributes", "", get_object_attributes, "GetObjectAttributes", "partial",
        "ObjectParts tells their number only."},
    Row{"GET", O, "acl", "", get_acl, "GetObjectAcl", "partial", "The owner has full control."},
    Row{"GET", O, "legal-hold", "", nullptr, "GetObjectLegalHold", "refused", ""},
    Row{"GET", O, "retention", "", nullptr, "GetObjectRetention", "refused", ""},
    Row{"GET", O, "torrent", "", nullptr, "GetObjectTorrent", "refused", ""},
    Row{"GET", O, "", "", get_object, "GetObject", "full", "Several ranges give the whole object."},
    Row{"HEAD", O, "", "", head_object, "HeadObject", "full", ""},
    Row{"PUT", O, "uploadId", "x-amz-copy-source", upload_part_copy, "UploadPartCopy", "full", ""},
    Row{"PUT", O, "uploadId", "", upload_part, "UploadPart", "full", ""},
    Row{"PUT", O, "tagging", "", put_object_tagging, "PutObjectTagging", "full", ""},
    Row{"PUT", O, "acl", "", accept_setting, "PutObjectAcl", "accepted", "There is one owner."},
    Row{"PUT", O, "legal-hold", "", nullptr, "PutObjectLegalHold", "refused", ""},
    Row{"PUT", O, "retention", "", nullptr, "PutObjectRetention", "refused", ""},
    Row{"PUT", O, "renameObject", "", nullptr, "RenameObject", "refused", ""},
    Row{"PUT", O, "", "x-amz-copy-source", copy_object, "CopyObject", "full", ""},
    Row{"PUT", O, "", "", put_object, "PutObject", "full",
        "Encryption headers are kept and given back; nothing is encrypted."},
    Row{"DELETE", O, "uploadId", "", abort_multipart_upload, "AbortMultipartUpload", "full", ""},
    Row{"DELETE", O, "tagging", "", delete_object_tagging, "DeleteObjectTagging", "full", ""},
    Row{"DELETE", O, "", "", delete_object, "DeleteObject", "full", ""},
    Row{"POST", O, "uploads", "", create_multipart_upload, "CreateMultipartUpload", "full", ""},
    Row{"POST", O, "uploadId", "", complete_multipart_upload, "CompleteMultipartUpload", "full",
        ""},
    Row{"POST", O, "restore", "", nullptr, "RestoreObject", "refused", ""},
    Row{"POST", O, "select", "", nullptr, "SelectObjectContent", "refused", ""},
};

const Row& find_row(const S3Call& call) {
    const Level level = call.bucket.empty() ? Level::service
                        : call.key.empty()  ? Level::bucket
                                            : Level::object;
    for (const Row& row : kRows) {
        if (row.method != call.call.request.method || row.level != level) continue;
        if (!row.parameter.empty() && !call.query.has(row.parameter)) continue;
        if (!row.header.empty() && !call.call.request.headers.contains(row.header)) continue;
        return row;
    }
    throw_error(Code::invalid, "MethodNotAllowed",
                "The specified method {} is not allowed against this resource",
                to_valid_utf8(truncate_utf8(call.call.request.method, 20)));
}

void check_owner(const S3Call& call) {
    const std::string wanted = call.header("x-amz-expected-bucket-owner");
    if (!wanted.empty() && wanted != call.account())
        throw_error(Code::denied, "AccessDenied",
                    "the bucket \"{}\" belongs to account {}, not to {} as expected", call.bucket,
                    call.account(), to_valid_utf8(truncate_utf8(wanted, 40)));
}

}  // namespace
}  // namespace s3

http::Response serve_s3(Call& call) {
    s3::S3Call s3_call = s3::make_call(call);
    const s3::Row& row = s3::find_row(s3_call);
    call.operation = row.name;
    s3::check_owner(s3_call);
    if (row.handle == nullptr)
        throw_error(Code::unsupported, "", "the operation {} is known and not offered by Trainyard",
                    row.name);
    return row.handle(s3_call);
}

std::vector<OperationCoverage> s3_coverage() {
    std::vector<OperationCoverage> out;
    for (const s3::Row& row : s3::kRows) {
        std::string note(row.note);
        if (note.empty() && row.handle == nullptr) note = "NotImplemented, naming the operation.";
        out.push_back({"s3", std::string(row.name), std::string(row.state), std::move(note)});
    }
    return out;
}

}  // namespace ty::api
