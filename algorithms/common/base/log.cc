// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <unistd.h>

#include <cerrno>

namespace alg {

void print_line(std::string_view text) {
    std::string line(text);
    // Names and values of data must not move the cursor or colour the terminal.
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = '?';
    line += '\n';
    std::size_t done = 0;
    while (done < line.size()) {
        const ssize_t wrote = ::write(STDOUT_FILENO, line.data() + done, line.size() - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return;
        done += static_cast<std::size_t>(wrote);
    }
}

void SkipLog::skip(const std::string& kind, const std::string& where, const std::string& what) {
    ++total_;
    const long count = ++counts_[kind];
    if (count <= shown_each_) warn("{}: {}", where, what);
    if (count == shown_each_) warn("more of \"{}\" are counted, not shown", kind);
}

void SkipLog::summarise(long out_of, const std::string& unit) const {
    if (total_ == 0) return;
    std::string kinds;
    for (const auto& [kind, count] : counts_)
        kinds += format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
    warn("skipped {} of {} {}: {}", total_, out_of, unit, kinds);
}

}  // namespace alg
