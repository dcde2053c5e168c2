// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/rank_lines.h"

#include "base/format.h"
#include "base/text.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ty::agent {

namespace {

constexpr std::size_t kLongestLine = 64u << 10;
constexpr std::size_t kLongestTag = 48;

struct RawTag {
    std::string_view job, rank, stream;
    std::size_t size = 0;
};

std::string_view digits(std::string_view text) {
    return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

/// "[1,3]<stdout>:" at the head of the text; nullopt when it is not there.
std::optional<RawTag> raw_tag(std::string_view text) {
    RawTag tag;
    std::size_t at = 1;
    const auto take = [&](std::string_view word) {
        if (!text.substr(std::min(at, text.size())).starts_with(word)) return false;
        at += word.size();
        return true;
    };
    tag.job = digits(text.substr(1));
    at += tag.job.size();
    if (tag.job.empty() || !take(",")) return std::nullopt;
    tag.rank = digits(text.substr(at));
    at += tag.rank.size();
    if (tag.rank.empty() || !take("]<")) return std::nullopt;
    for (const std::string_view stream : {"stdout", "stderr", "stddiag"}) {
        if (!take(stream)) continue;
        tag.stream = stream;
        if (!take(">:")) return std::nullopt;
        tag.size = at;
        return tag;
    }
    return std::nullopt;
}

/// More text might still make it one.
bool may_become_tag(std::string_view text) {
    return text.size() < kLongestTag &&
           text.substr(1).find_first_not_of("0123456789,]<>abcdefghijklmnopqrstuvwxyz") ==
               std::string_view::npos;
}

}  // namespace

void RankLines::add(std::string_view text) {
    pending_ += text;
    std::string_view rest = pending_;
    while (!rest.empty()) {
        const std::size_t bracket = std::min(rest.find('['), rest.size());
        append(rest.substr(0, bracket));
        rest.remove_prefix(bracket);
        if (rest.empty()) break;
        if (const auto tag = raw_tag(rest)) {
            current_ = tag_of(tag->job, tag->rank, tag->stream);
            rest.remove_prefix(tag->size);
        } else if (may_become_tag(rest)) {
            break;
        } else {
            append(rest.substr(0, 1));
            rest.remove_prefix(1);
        }
    }
    pending_ = std::string(rest);
}

void RankLines::finish() {
    append(std::exchange(pending_, {}));
    for (auto& [tag, line] : lines_) {
        if (!line.empty()) emit(tag, line);
    }
}

void RankLines::append(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string& line = lines_[current_];
        line += text.substr(0, end);
        if (end == std::string_view::npos) {
            if (line.size() > kLongestLine) emit(current_, line);
            return;
        }
        emit(current_, line);
        current_.clear();  // after a line's end a process speaks with a tag only
        text.remove_prefix(end + 1);
    }
}

void RankLines::emit(const std::string& tag, std::string& line) {
    write_(tag + std::exchange(line, {}) + "\n");
}

std::string RankLines::tag_of(std::string_view job, std::string_view rank,
                              std::string_view stream) const {
    const auto number = parse_int(rank);
    const auto host = static_cast<std::size_t>(number.value_or(0) / processes_);
    return format("[{},mpirank:{},{}]<{}>:", job, rank,
                  host < hosts_.size() ? hosts_[host] : "unknown", stream);
}

}  // namespace ty::agent
