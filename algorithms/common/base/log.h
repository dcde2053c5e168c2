// SPDX-License-Identifier: Apache-2.0
// Lines on stdout, each one write, so that ranks that share a pipe never mix; and counted warnings.
#pragma once

#include "common/base/error.h"

#include <map>
#include <string>
#include <string_view>

namespace alg {

/// `text` and a newline in one write(2) to stdout. Any thread. Errors are ignored (a closed pipe).
void print_line(std::string_view text);

template <typename... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
    print_line(fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
    print_line("warning: " + fmt::format(text, std::forward<Args>(args)...));
}

/// Problems of data that are skipped and counted: the first few of a kind are shown whole with file
/// and line, the rest only in the summary. One thread at a time.
class SkipLog {
public:
    explicit SkipLog(int shown_each = 3) : shown_each_(shown_each) {}
    void skip(const std::string& kind, const std::string& where, const std::string& what);
    long total() const { return total_; }
    /// "skipped 12 of 10000 lines: 10 fields of unequal length, 2 …"; nothing when there were none.
    void summarise(long out_of, const std::string& unit) const;
    const std::map<std::string, long>& counts() const { return counts_; }

private:
    int shown_each_;
    long total_ = 0;
    std::map<std::string, long> counts_;
};

}  // namespace alg
