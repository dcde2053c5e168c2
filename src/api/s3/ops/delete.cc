// SPDX-License-Identifier: Apache-2.0
// DeleteObject and DeleteObjects.
#include "api/s3/payload.h"
#include "api/s3/xml_in.h"
#include "base/text.h"

namespace ty::api::s3 {
namespace {

/// A thousand keys of 1 KiB, escaped.
constexpr Bytes kDocumentLimit(8u << 20);

bool is_real_version(const std::string& version) {
    return !version.empty() && version != "null";
}

}  // namespace

http::Response delete_object(S3Call& call) {
    // Deleting a version that does not exist is a success in S3.
    if (!is_real_version(call.query.get("versionId"))) call.store().remove(call.bucket, call.key);
    return empty_reply(204);
}

http::Response delete_objects(S3Call& call) {
    if (!Upload(call).is_protected())
        throw_error(Code::invalid, "InvalidRequest",
                    "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
    const DeleteRequest request = parse_delete(read_document(call, kDocumentLimit));
    std::vector<std::string> keys;
    for (const auto& entry : request.entries)
        if (!is_real_version(entry.version)) keys.push_back(entry.key);
    call.store().remove(call.bucket, keys);
    aws::XmlWriter xml;
    xml.open("DeleteResult", {{"xmlns", kNamespace}});
    for (const auto& entry : request.entries) {
        if (is_real_version(entry.version)) {
            xml.open("Error")
                .element("Key", entry.key)
                .element("VersionId", entry.version)
                .element("Code", "NoSuchVersion")
                .element("Message", "The specified version does not exist.")
                .close();
        } else if (!request.quiet) {
            xml.open("Deleted").element("Key", entry.key).close();
        }
    }
    return xml_reply(std::move(xml));
}

}  // namespace ty::api::s3
