// SPDX-License-Identifier: Apache-2.0
// Object tags.
#include "api/s3/s3.h"
#include "api/s3/xml_in.h"

namespace ty::api::s3 {
namespace {

constexpr Bytes kDocumentLimit(256u << 10);

}  // namespace

http::Response get_object_tagging(S3Call& call) {
    const auto info = call.store().find(call.bucket, call.key);
    if (!info)
        throw_error(Code::not_found, "NoSuchKey", "The specified key does not exist: s3://{}/{}",
                    call.bucket, call.key);
    aws::XmlWriter xml;
    xml.open("Tagging", {{"xmlns", kNamespace}}).open("TagSet");
    for (const auto& [key, value] : info->attributes.tags)
        xml.open("Tag").element("Key", key).element("Value", value).close();
    return xml_reply(std::move(xml));
}

http::Response put_object_tagging(S3Call& call) {
    call.store().set_tags(call.bucket, call.key,
                          parse_tagging(read_document(call, kDocumentLimit)));
    return empty_reply(200);
}

http::Response delete_object_tagging(S3Call& call) {
    call.store().set_tags(call.bucket, call.key, {});
    return empty_reply(204);
}

}  // namespace ty::api::s3
