// SPDX-License-Identifier: Apache-2.0
#include "agent/progress_file.h"

#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>

namespace ty::agent {

namespace {

constexpr off_t kLargest = 64 << 10;
constexpr std::size_t kMessage = 1000;

/// A count; nullopt when it is given and none.
std::optional<std::int64_t> count(const Json& document, const char* name) {
    const auto found = document.find(name);
    if (found == document.end() || found->is_null()) return 0;
    if (!found->is_number_integer()) return std::nullopt;
    const bool fits =
        !found->is_number_unsigned() || found->get<std::uint64_t>() <= std::uint64_t(INT64_MAX);
    const std::int64_t value = fits ? found->get<std::int64_t>() : -1;
    return value < 0 ? std::nullopt : std::optional(value);
}

}  // namespace

std::optional<plan::Progress> parse_progress(std::string_view text) {
    const Result<Json> parsed = capture([&] { return parse_json(text); });
    if (!parsed.ok()) return std::nullopt;
    const Json document = Result<Json>(parsed).value();
    if (!document.is_object()) return std::nullopt;
    const auto step = count(document, "step");
    const auto total = count(document, "total");
    if (!step || !total) return std::nullopt;
    plan::Progress progress{*step, *total, {}};
    if (const auto message = document.find("message"); message != document.end()) {
        if (!message->is_string() && !message->is_null()) return std::nullopt;
        if (message->is_string())
            progress.message = truncate_utf8(to_valid_utf8(message->get<std::string>()), kMessage);
    }
    return progress;
}

std::optional<plan::Progress> ProgressFile::look() {
    // The program owns the place: no link, no FIFO, no more than is meant.
    const sys::Fd file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_size > kLargest)
        return std::nullopt;
    const long long modified = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
    if (modified == modified_ && info.st_ino == inode_) return std::nullopt;
    std::string text(static_cast<std::size_t>(kLargest), '\0');
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    if (got <= 0) return std::nullopt;
    text.resize(static_cast<std::size_t>(got));
    const std::optional<plan::Progress> progress = parse_progress(text);
    if (!progress) return std::nullopt;  // it may be half of one: looked at again
    modified_ = modified;
    inode_ = info.st_ino;
    if (text == last_) return std::nullopt;
    last_ = std::move(text);
    return progress;
}

}  // namespace ty::agent
