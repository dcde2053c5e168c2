// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/notice/notice_text.h"

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace ty::agent {

namespace {

constexpr double kMaxSeconds = 366.0 * 24 * 3600;

milliseconds until(Instant when, Instant now) {
    return std::clamp<milliseconds>(when - now, milliseconds(0),
                                    milliseconds(static_cast<long long>(kMaxSeconds) * 1000));
}

/// Seconds from now, or an instant as ISO text.
std::optional<milliseconds> time_left(std::string_view text, Instant now) {
    if (const auto number = parse_double(text); number && std::isfinite(*number)) {
        return milliseconds(std::llround(std::clamp(*number, 0.0, kMaxSeconds) * 1000));
    }
    if (const auto when = parse_iso8601(text)) return until(*when, now);
    return std::nullopt;
}

/// "grace" in seconds, "time" as ISO text or seconds since the epoch.
std::optional<milliseconds> document_left(const Json& document, Instant now) {
    const auto grace = document.find("grace");
    if (grace != document.end() && grace->is_number()) return time_left(dump_json(*grace), now);
    if (grace != document.end() && grace->is_string())
        return time_left(trim(grace->get_ref<const std::string&>()), now);
    const auto time = document.find("time");
    if (time == document.end()) return std::nullopt;
    if (time->is_string()) {
        const auto when = parse_iso8601(trim(time->get_ref<const std::string&>()));
        if (when) return until(*when, now);
        return std::nullopt;
    }
    if (!time->is_number()) return std::nullopt;
    const double left = time->get<double>() - to_epoch_seconds(now);
    return milliseconds(std::llround(std::clamp(left, 0.0, kMaxSeconds) * 1000));
}

}  // namespace

std::optional<milliseconds> parse_notice_file(std::string_view text, Instant now) {
    text = trim(text);
    if (text.empty()) return std::nullopt;
    if (!text.starts_with('{')) {
        const auto left = time_left(text, now);
        if (left) return left;
    } else {
        const Json document = parse_json(text);
        const auto left = document_left(document, now);
        if (left || (!document.contains("time") && !document.contains("grace"))) return left;
    }
    throw_error(Code::invalid, "InvalidNotice",
                "\"{}\" is neither seconds, an ISO time nor JSON with \"time\" or \"grace\"",
                to_valid_utf8(text.substr(0, 200)));
}

std::optional<DocumentNotice> parse_notice_document(std::string_view text, Instant now) {
    text = trim(text);
    if (equals_ignoring_case(text, "true")) return DocumentNotice{};
    if (!text.starts_with('{')) {
        const auto left = time_left(text, now);
        if (!left) return std::nullopt;
        return DocumentNotice{left, ""};
    }
    const Json document = parse_json(text);
    DocumentNotice notice;
    notice.deadline = document_left(document, now);
    const auto action = document.find("action");
    if (action != document.end() && action->is_string()) {
        const std::string word =
            to_valid_utf8(truncate_utf8(action->get_ref<const std::string&>(), 40));
        if (word.empty() || equals_ignoring_case(word, "none")) return std::nullopt;
        notice.action = ": " + word;
    } else if (!notice.deadline) {
        return std::nullopt;
    }
    return notice;
}

}  // namespace ty::agent
