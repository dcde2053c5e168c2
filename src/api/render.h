// SPDX-License-Identifier: Apache-2.0
// Answers in the forms of AWS's protocols: JSON 1.0/1.1, query and EC2 XML, REST-XML, RPC-v2 CBOR.
// Used by router.cc for everything that fails before or inside a face, and by the faces themselves.
#pragma once

#include "api/errors.h"
#include "aws/xml.h"
#include "http/http.h"

#include <functional>
#include <string>
#include <string_view>

namespace ty::api {

enum class Protocol { json_1_0, json_1_1, rest_json, query, ec2, rest_xml, cbor };

/// What an error answer mentions besides the failure itself.
struct ErrorContext {
    std::string request_id;
    std::string path;           ///< request path, decoded into Resource/BucketName/Key by S3
    bool head = false;          ///< HEAD: status and headers only
    std::string xml_namespace;  ///< query errors; may be empty
    bool query_mode = false;    ///< x-amzn-query-mode was sent: add x-amzn-query-error
};

http::Response render_failure(Protocol protocol, const Failure& failure,
                              const ErrorContext& context);
/// failure_of + render_failure, and the log line a failure of ours or a denial deserves.
http::Response render_error(Protocol protocol, std::string_view service, const Error& error,
                            const ErrorContext& context);

/// 200 with an AWS JSON body ("application/x-amz-json-1.1" or 1.0).
http::Response json_reply(Protocol protocol, std::string body);

/// <OpResponse xmlns><OpResult> fill()
/// </OpResult><ResponseMetadata><RequestId/></ResponseMetadata>. `fill` may be empty: no result
/// element, as AWS answers operations without output.
http::Response query_reply(std::string_view operation, std::string_view xml_namespace,
                           const std::string& request_id,
                           const std::function<void(aws::XmlWriter&)>& fill);
/// <OpResponse xmlns><requestId/> fill() </OpResponse>, EC2's own envelope.
http::Response ec2_reply(std::string_view operation, const std::string& request_id,
                         const std::function<void(aws::XmlWriter&)>& fill);

}  // namespace ty::api
