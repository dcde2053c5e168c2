// SPDX-License-Identifier: Apache-2.0
// Log events as JSON text, written directly: a page may hold ten thousand. Private to api/logs/.
#pragma once

#include <string>
#include <string_view>

namespace ty::api::logs {

/// Appends `text` as a JSON string; invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ty::api::logs
