// SPDX-License-Identifier: Apache-2.0
// Request bodies of JSON, query and CBOR services: clients compress what they send to CloudWatch.
#pragma once

#include "base/bytes.h"

#include <string>
#include <string_view>

namespace ty::api {

/// The body as clients compress it for PutMetricData: gzip by Content-Encoding, anything else as it
/// is. Throws invalid "InvalidContentEncoding" (broken stream), exhausted "EntityTooLarge" (beyond
/// `limit`).
std::string unpack_body(std::string body, std::string_view content_encoding, Bytes limit);

}  // namespace ty::api
