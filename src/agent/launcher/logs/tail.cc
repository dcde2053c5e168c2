// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/logs/tail.h"
#include "base/error.h"

#include <algorithm>

#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace ty::agent {

namespace {

constexpr std::size_t kChunk = 256u << 10;
// A line longer than this is passed on in pieces instead of being held in memory.
constexpr std::size_t kLongLine = 1u << 20;

const char* find_byte(std::string_view text, char byte) {
    const std::size_t at = text.find(byte);
    return at != text.npos ? text.data() + at : nullptr;
}

}  // namespace

LineCutter::LineCutter(std::string prefix, std::vector<std::string> filters)
    : prefix_(std::move(prefix)), filters_(std::move(filters)) {}

void LineCutter::emit(std::string_view line, std::string_view end, Out& out) {
    if (!in_line_) out.console += prefix_;
    out.console += line;
    out.console += end;
    const bool wanted =
        std::any_of(filters_.begin(), filters_.end(),
                    [line](const std::string& text) { return line.find(text) != line.npos; });
    if (wanted) out.filtered.append(prefix_).append(line).append("\n");
}

void LineCutter::cut(std::string_view data, bool last, Out& out) {
    std::string joined;
    if (!carry_.empty()) {
        joined = std::move(carry_);
        carry_.clear();
        joined += data;
        data = joined;
    }
    const bool has_returns = find_byte(data, '\r') != nullptr;
    while (!data.empty()) {
        const char* end = find_byte(data, '\n');
        std::size_t length =
            end != nullptr ? static_cast<std::size_t>(end - data.data()) : data.npos;
        std::size_t skip = 1;
        if (has_returns) {
            const char* back = find_byte(data.substr(0, length), '\r');
            if (back != nullptr) {
                const auto at = static_cast<std::size_t>(back - data.data());
                // At the very end it may be half of \r\n.
                if (at + 1 == data.size() && !last) break;
                skip = at + 1 < data.size() && data[at + 1] == '\n' ? 2 : 1;
                length = at;
            }
        }
        if (length == data.npos) break;
        emit(data.substr(0, length), "\n", out);
        in_line_ = false;
        data.remove_prefix(length + skip);
    }
    if (data.empty()) return;
    if (last || data.size() > kLongLine) {
        emit(data, "", out);
        in_line_ = !last;
    } else {
        carry_ = data;
    }
}

Tail::Tail(const sys::fs::path& path, LineCutter cutter)
    : file_(sys::open_read(path)), cutter_(std::move(cutter)) {}

bool Tail::read(std::vector<char>& buffer, bool last, LineCutter::Out& out) {
    buffer.resize(kChunk);
    ssize_t count = 0;
    do {
        count = ::pread(file_.get(), buffer.data(), buffer.size(), offset_);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
        if (last) cutter_.cut({}, true, out);
        return false;
    }
    offset_ += count;
    cutter_.cut({buffer.data(), static_cast<std::size_t>(count)}, false, out);
    return true;
}

}  // namespace ty::agent
