// SPDX-License-Identifier: Apache-2.0
// From the end of the program to one precise FailureReason: the failure file first, then what the
// program said last, with its exit code or its named signal.
#pragma once

#include "base/bytes.h"
#include "plan/plan.h"
#include "sys/child.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

inline constexpr std::size_t kReasonLimit = 1024;  ///< characters AWS keeps of a FailureReason

/// The last lines a program wrote, bounded in number and size.
class Tail {
public:
    void add(std::string_view line);
    const std::deque<std::string>& lines() const { return lines_; }
    void clear() { lines_.clear(), size_ = 0; }

private:
    std::deque<std::string> lines_;
    std::size_t size_ = 0;
};

/// The Python traceback's exception line when there is one, else the last lines that say something.
std::string meaningful_lines(const std::deque<std::string>& lines);

struct ProgramEnd {
    sys::Exit exit;
    bool out_of_memory = false;  ///< the kernel's counter says so
    Bytes memory_limit;          ///< zero: none
    std::string command;         ///< as shown in script mode
    bool script_mode = false;    ///< the toolkit's exit and failure conventions
};

/// Text of /opt/ml/output/failure, at most the limit; nullopt when missing or blank.
std::optional<std::string> read_failure_file(const std::string& path);

/// Complete text, "AlgorithmError: …, exit code: N", cut to kReasonLimit characters.
std::string failure_reason(const ProgramEnd& end, const std::optional<std::string>& failure_file,
                           const Tail& tail);

/// The toolkit's own words: "<kind>:\nExitCode N\nErrorMessage \"…\"\nCommand \"…\"".
std::string toolkit_failure(std::string_view kind, int exit_code, std::string_view message,
                            std::string_view extra, std::string_view command);
/// "AlgorithmError: <text>, exit code: N" cut to the limit, the exit code always kept.
std::string algorithm_error(std::string_view text, int exit_code);

}  // namespace ty::agent
