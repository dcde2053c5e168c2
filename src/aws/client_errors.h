// SPDX-License-Identifier: Apache-2.0
// An S3 answer that is no success, as an Error our own code can act upon. Private to aws/.
#pragma once

#include "base/error.h"
#include "http/http.h"

#include <string_view>

namespace ty::aws {

/// `what` names the call: "GET s3://bucket/key". The reason is S3's code, or "404" where a HEAD has
/// none. Code::unavailable marks what may be repeated.
Error s3_error(const http::ClientResponse& response, std::string_view what);

}  // namespace ty::aws
