// SPDX-License-Identifier: Apache-2.0
// What the text of a notice says. Foreign text: anything may be in it. Private to notices.
#pragma once

#include "base/time.h"

#include <optional>
#include <string>
#include <string_view>

namespace ty::agent {

/// The time left. A file that is there is a notice whatever it says: nullopt is "it does not say".
/// Empty, a number of seconds, an ISO time, or JSON with "time" or "grace". Throws invalid when the
/// text is none of these.
std::optional<milliseconds> parse_notice_file(std::string_view text, Instant now);

struct DocumentNotice {
    std::optional<milliseconds> deadline;
    std::string action;  ///< "" or ": terminate"
};
/// A metadata service's 200: JSON with "action" other than "none", "time" or "grace"; a number of
/// seconds; an ISO time; or TRUE. Everything else (FALSE, NONE, {}, a login page) is no notice.
std::optional<DocumentNotice> parse_notice_document(std::string_view text, Instant now);

}  // namespace ty::agent
