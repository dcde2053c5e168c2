// SPDX-License-Identifier: Apache-2.0
// See client_errors.h.
#include "aws/client_errors.h"

#include "aws/xml_scan.h"
#include "base/text.h"

namespace ty::aws {

namespace {

Code code_of(int status, std::string_view s3_code) {
    if (s3_code == "SlowDown" || s3_code == "RequestTimeout" || s3_code == "OperationAborted")
        return Code::unavailable;
    switch (status) {
        case 401:
        case 403:
            return Code::denied;
        case 404:
            return Code::not_found;
        case 409:
        case 412:
            return Code::conflict;
        case 408:
        case 429:
        case 500:
        case 502:
        case 503:
        case 504:
            return Code::unavailable;
        case 501:
            return Code::unsupported;
        case 507:
            return Code::exhausted;
        default:
            return Code::invalid;
    }
}

std::string_view hint(Code code, std::string_view s3_code) {
    if (s3_code == "NoSuchBucket") return "; create the bucket or correct its name";
    if (code == Code::exhausted) return "; free disk space on the server";
    return "";
}

}  // namespace

Error s3_error(const http::ClientResponse& response, std::string_view what) {
    const Fault fault = find_fault(response.body).value_or(Fault{});
    const Code code = code_of(response.status, fault.code);
    const std::string reason =
        fault.code.empty() ? std::to_string(response.status) : to_valid_utf8(fault.code);
    std::string message = format("{}: HTTP {} {}", what, response.status, reason);
    if (!fault.message.empty()) message += ": " + to_valid_utf8(truncate_utf8(fault.message, 300));
    message += hint(code, fault.code);
    return Error(code, reason, std::move(message));
}

}  // namespace ty::aws
