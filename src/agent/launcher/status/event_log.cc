// SPDX-License-Identifier: Apache-2.0
// --events: one JSON object a line. Values that are written as JSON numbers become numbers.
#include "agent/launcher/status/events.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

#include <cmath>
#include <system_error>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

namespace {

/// "007", "+1", "1." and "0x1f" are names that happen to have digits; they stay text.
Json value_of(const std::string& text) {
    const std::string_view digits = text.starts_with('-') ? std::string_view(text).substr(1) : text;
    const bool starts_as_number =
        !digits.empty() && digits.find_first_not_of("0123456789.eE+-") == std::string_view::npos &&
        digits[0] >= '0' && digits[0] <= '9' && !digits.ends_with('.') &&
        (digits[0] != '0' || digits.size() == 1 || digits[1] < '0' || digits[1] > '9');
    if (!starts_as_number) return text;
    if (const auto integer = parse_int(text)) return *integer;
    const auto real = parse_double(text);
    if (!real || !std::isfinite(*real)) return text;
    if (text.find_first_of(".eE") == std::string::npos) return text;  // an integer beyond 64 bits
    return *real;
}

}  // namespace

EventLog::EventLog(const std::string& target, std::string run_id, std::string node,
                   const Clock& clock)
    : run_id_(std::move(run_id)), node_(std::move(node)), clock_(clock) {
    if (target.empty()) return;
    if (target == "-") {
        fd_ = STDERR_FILENO;
        return;
    }
    const sys::fs::path folder = sys::fs::path(target).parent_path();
    std::error_code ignored;
    if (!folder.empty() && !sys::fs::is_directory(folder, ignored)) {
        throw_error(Code::not_found, "NoSuchFolder",
                    "--events {}: the folder {} does not exist; create it first", target,
                    folder.string());
    }
    file_ = in_context("--events", [&target] { return sys::open_write(target, O_APPEND); });
    fd_ = file_.get();
}

void EventLog::write(const std::string& what,
                     const std::vector<std::pair<std::string, std::string>>& fields) {
    if (fd_ < 0) return;
    Json line = Json::object();
    line["time"] = format_iso8601(clock_.now());
    line["event"] = what;
    line["run_id"] = run_id_;
    line["node"] = node_;
    for (const auto& [key, value] : fields) {
        const bool is_ours = key == "time" || key == "event" || key == "run_id" || key == "node";
        line[is_ours ? "about_" + key : key] = value_of(value);
    }
    std::string text = dump_json(line);
    text += '\n';
    // After a line that a full disk cut short, this one must not join it.
    if (cut_short_) text.insert(text.begin(), '\n');
    ssize_t written = -1;
    do written = ::write(fd_, text.data(), text.size());
    while (written < 0 && errno == EINTR);
    if (written > 0) cut_short_ = static_cast<std::size_t>(written) < text.size();
}

}  // namespace ty::agent
