// SPDX-License-Identifier: Apache-2.0
#include "agent/shipping/line_cutter.h"

#include "base/text.h"

#include <cstdint>
#include <cstring>

namespace ty::agent {

namespace {

bool is_ascii(std::string_view text) {
    const char* at = text.data();
    std::size_t left = text.size();
    std::uint64_t seen = 0;
    for (; left >= sizeof(std::uint64_t);
         left -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
        std::uint64_t word;
        std::memcpy(&word, at, sizeof word);
        seen |= word;
    }
    for (; left > 0; --left, ++at) seen |= static_cast<unsigned char>(*at);
    return (seen & 0x8080808080808080u) == 0;
}

/// Largest cut not beyond `limit` that does not split a UTF-8 sequence.
std::size_t cut_point(std::string_view text, std::size_t limit) {
    std::size_t at = limit;
    while (at > limit - 3 && at > 1 && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u)
        --at;
    // Still inside: not UTF-8 at all, any place is as good.
    return (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u ? limit : at;
}

}  // namespace

void LineCutter::feed(std::string_view data, const Sink& sink) {
    while (!data.empty()) {
        const std::size_t end = data.find('\n');
        if (end == std::string_view::npos) {
            partial_.append(data);
            emit_full_pieces(sink);
            return;
        }
        std::string_view line = data.substr(0, end);
        data.remove_prefix(end + 1);
        if (!partial_.empty()) {
            partial_.append(line);
            emit_full_pieces(sink);
            line = partial_;
        }
        while (line.size() > cap_) {
            const std::size_t cut = cut_point(line, cap_);
            emit(line.substr(0, cut), sink);
            line.remove_prefix(cut);
        }
        if (line.ends_with('\r')) line.remove_suffix(1);
        emit(line, sink);
        partial_.clear();
    }
}

void LineCutter::emit_full_pieces(const Sink& sink) {
    std::string_view rest = partial_;
    while (rest.size() > cap_) {
        const std::size_t cut = cut_point(rest, cap_);
        emit(rest.substr(0, cut), sink);
        rest.remove_prefix(cut);
    }
    if (rest.size() != partial_.size()) partial_.erase(0, partial_.size() - rest.size());
}

void LineCutter::flush(const Sink& sink) {
    if (partial_.empty()) return;
    std::string_view line = partial_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    emit(line, sink);
    partial_.clear();
}

void LineCutter::emit(std::string_view line, const Sink& sink) {
    if (is_ascii(line) || is_valid_utf8(line)) {
        sink(line);
    } else {
        sink(to_valid_utf8(line));
    }
}

}  // namespace ty::agent
