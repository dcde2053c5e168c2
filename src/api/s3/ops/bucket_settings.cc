// SPDX-License-Identifier: Apache-2.0
// Settings that buckets do not have here. Reading one gives the truthful answer of a bucket where
// it was never configured; setting one is refused by name (service.cc), but for the few that change
// nothing a training flow could notice.
#include "api/s3/s3.h"

#include <array>

namespace ty::api::s3 {
namespace {

/// Either an error code of "not configured" or the root of an empty document.
struct Setting {
    std::string_view parameter, missing, root, message;
};
constexpr std::array kSettings{
    Setting{"versioning", "", "VersioningConfiguration", ""},
    Setting{"logging", "", "BucketLoggingStatus", ""},
    Setting{"notification", "", "NotificationConfiguration", ""},
    Setting{"accelerate", "", "AccelerateConfiguration", ""},
    Setting{"policy", "NoSuchBucketPolicy", "", "The bucket policy does not exist"},
    Setting{"policyStatus", "NoSuchBucketPolicy", "", "The bucket policy does not exist"},
    Setting{"encryption", "ServerSideEncryptionConfigurationNotFoundError", "",
            "The server side encryption configuration was not found"},
    Setting{"lifecycle", "NoSuchLifecycleConfiguration", "",
            "The lifecycle configuration does not exist"},
    Setting{"cors", "NoSuchCORSConfiguration", "", "The CORS configuration does not exist"},
    Setting{"tagging", "NoSuchTagSet", "", "The TagSet does not exist"},
    Setting{"website", "NoSuchWebsiteConfiguration", "",
            "The specified bucket does not have a website configuration"},
    Setting{"replication", "ReplicationConfigurationNotFoundError", "",
            "The replication configuration was not found"},
    Setting{"publicAccessBlock", "NoSuchPublicAccessBlockConfiguration", "",
            "The public access block configuration was not found"},
    Setting{"ownershipControls", "OwnershipControlsNotFoundError", "",
            "The bucket ownership controls were not found"},
    Setting{"object-lock", "ObjectLockConfigurationNotFoundError", "",
            "Object Lock configuration does not exist for this bucket"},
};

void require_bucket(const S3Call& call) {
    if (!call.store().find_bucket(call.bucket))
        throw_error(Code::not_found, "NoSuchBucket", "The specified bucket does not exist: \"{}\"",
                    call.bucket);
}

}  // namespace

http::Response get_bucket_setting(S3Call& call) {
    require_bucket(call);
    for (const Setting& row : kSettings) {
        if (!call.query.has(row.parameter)) continue;
        if (!row.missing.empty())
            throw_error(Code::not_found, row.missing, "{}: {}", row.message, call.bucket);
        aws::XmlWriter xml;
        xml.open(row.root, {{"xmlns", kNamespace}});
        return xml_reply(std::move(xml));
    }
    if (call.query.has("requestPayment")) {
        aws::XmlWriter xml;
        xml.open("RequestPaymentConfiguration", {{"xmlns", kNamespace}});
        xml.element("Payer", "BucketOwner");
        return xml_reply(std::move(xml));
    }
    throw_error(Code::internal, "", "a bucket setting is routed here and not known");
}

http::Response get_acl(S3Call& call) {
    require_bucket(call);
    if (!call.key.empty() && !call.store().find(call.bucket, call.key))
        throw_error(Code::not_found, "NoSuchKey", "The specified key does not exist: {}", call.key);
    aws::XmlWriter xml;
    xml.open("AccessControlPolicy", {{"xmlns", kNamespace}});
    add_owner(xml, "Owner", call);
    xml.open("AccessControlList").open("Grant");
    xml.open("Grantee", {{"xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"},
                         {"xsi:type", "CanonicalUser"}})
        .element("ID", owner_id(call))
        .element("DisplayName", call.account())
        .close();
    xml.element("Permission", "FULL_CONTROL");
    return xml_reply(std::move(xml));
}

http::Response accept_setting(S3Call& call) {
    require_bucket(call);
    return empty_reply(200);
}

}  // namespace ty::api::s3
