// SPDX-License-Identifier: Apache-2.0
// One S3 request as its operations see it, and the operations. Private to api/s3.
//
// Operations run on connection threads and share nothing but the object store. They throw ty::Error
// with S3's codes; the router renders it.
#pragma once

#include "api/api.h"
#include "aws/aws.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::api::s3 {

inline constexpr std::string_view kNamespace = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Query parameters, decoded, in order.
class Query {
public:
    Query() = default;
    explicit Query(std::string_view text);
    bool has(std::string_view name) const;
    /// Empty when absent.
    const std::string& get(std::string_view name) const;
    /// A count within [0, most]; `otherwise` when absent. Larger values are cut. Throws invalid
    /// "InvalidArgument" naming the parameter.
    std::size_t count(std::string_view name, std::size_t otherwise, std::size_t most) const;

private:
    std::vector<std::pair<std::string, std::string>> fields_;
};

struct S3Call {
    Call& call;
    std::string bucket, key;  ///< decoded; empty when the path names none
    Query query;

    objects::ObjectStore& store() const { return call.services.objects; }
    const std::string& account() const { return call.services.settings.account; }
    /// First value of a request header; empty when absent.
    std::string header(std::string_view name) const {
        return std::string(call.request.headers.get(name));
    }
};

/// The path's bucket and key. Throws invalid "InvalidURI" for broken escapes.
S3Call make_call(Call& call);

/// What a x-amz-checksum header of the request speaks of.
enum class ChecksumOf { body, finished_object };

// ---- reading and answering
// ------------------------------------------------------------------------

/// A request document of at most `limit`, its checksum or MD5 verified where one was sent. Throws
/// invalid "MalformedXML" beyond the limit.
std::string read_document(S3Call& call, Bytes limit, ChecksumOf checksum = ChecksumOf::body);
/// 200 application/xml.
http::Response xml_reply(aws::XmlWriter&& xml);
http::Response empty_reply(int status);
std::string quote_etag(std::string_view etag);
std::string unquote_etag(std::string_view etag);
/// Who owns everything: an id of 64 hex digits that follows from the account.
std::string owner_id(const S3Call& call);
void add_owner(aws::XmlWriter& xml, std::string_view element, const S3Call& call);

// ---- operations, one group per file of ops/
// -------------------------------------------------------

http::Response list_buckets(S3Call& call);
http::Response create_bucket(S3Call& call);
http::Response head_bucket(S3Call& call);
http::Response delete_bucket(S3Call& call);
http::Response get_bucket_location(S3Call& call);

http::Response get_bucket_setting(S3Call& call);
http::Response get_acl(S3Call& call);
http::Response accept_setting(S3Call& call);

http::Response list_objects(S3Call& call);
http::Response list_objects_v2(S3Call& call);
http::Response list_object_versions(S3Call& call);

http::Response get_object(S3Call& call);
http::Response head_object(S3Call& call);
http::Response get_object_attributes(S3Call& call);
http::Response put_object(S3Call& call);
http::Response copy_object(S3Call& call);
http::Response delete_object(S3Call& call);
http::Response delete_objects(S3Call& call);

http::Response get_object_tagging(S3Call& call);
http::Response put_object_tagging(S3Call& call);
http::Response delete_object_tagging(S3Call& call);

http::Response create_multipart_upload(S3Call& call);
http::Response upload_part(S3Call& call);
http::Response upload_part_copy(S3Call& call);
http::Response complete_multipart_upload(S3Call& call);
http::Response abort_multipart_upload(S3Call& call);
http::Response list_parts(S3Call& call);
http::Response list_multipart_uploads(S3Call& call);

}  // namespace ty::api::s3
