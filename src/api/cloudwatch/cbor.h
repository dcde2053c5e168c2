// SPDX-License-Identifier: Apache-2.0
// CBOR (RFC 8949) as far as Smithy's RPC-v2 protocol uses it, to and from JSON documents.
//
// Private to api/cloudwatch/. Pure functions.
#pragma once

#include "base/json.h"

#include <string>
#include <string_view>

namespace ty::api::cloudwatch {

/// One data item that fills the bytes. Times (tag 1) become numbers, seconds since 1970; byte
/// strings, other tags, keys that are not text, repeated keys, nesting over 32 and NaN are refused.
/// Throws invalid ("SerializationException") naming the position.
Json decode_cbor(std::string_view bytes);

/// Numbers in members named as CloudWatch's times (is_time_member) get tag 1.
std::string encode_cbor(const Json& value);

/// "Timestamp", "Timestamps", "StartTime", "EndTime": what is a time in CloudWatch's shapes.
bool is_time_member(std::string_view name);

}  // namespace ty::api::cloudwatch
