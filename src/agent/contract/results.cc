// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/results.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>

namespace ty::agent {

namespace {

constexpr std::size_t kTailLines = 200;
constexpr std::size_t kTailBytes = 64u << 10;
constexpr std::size_t kTailLineBytes = 4u << 10;
constexpr std::size_t kShownLines = 5;

/// "ValueError: …", "torch.cuda.OutOfMemoryError: …", "KeyboardInterrupt": starts with a dotted
/// name.
bool is_exception_line(std::string_view line) {
    const std::size_t end =
        line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (end == 0) return false;
    return end == std::string_view::npos || line[end] == ':';
}

/// "[1,mpirank:3,algo-2]<stderr>:" of a line that an MPI process said; empty for others.
std::string_view rank_tag(std::string_view line) {
    constexpr std::string_view kEnd = ">:";
    if (!line.starts_with("[1,mpirank:")) return {};
    const std::size_t end = line.find(kEnd);
    return end == std::string_view::npos ? std::string_view() : line.substr(0, end + kEnd.size());
}

/// The lines of the process that had the last traceback, without its tag; all others are noise:
/// further ranks, and what mpirun says about the end.
std::deque<std::string> of_failing_rank(const std::deque<std::string>& lines) {
    std::string_view tag;
    for (const std::string& line : lines) {
        if (line.find("Traceback (most recent call last)") != std::string::npos)
            tag = rank_tag(line);
    }
    if (tag.empty()) return lines;
    std::deque<std::string> own;
    for (const std::string& line : lines) {
        if (line.starts_with(tag)) own.push_back(line.substr(tag.size()));
    }
    return own;
}

/// The exception after the last "Traceback": its line and what follows it, e.g. a multi-line
/// message.
std::optional<std::string> last_exception(const std::deque<std::string>& lines) {
    std::size_t start = lines.size();
    for (std::size_t i = lines.size(); i-- > 0;) {
        if (lines[i].find("Traceback (most recent call last)") != std::string::npos) {
            start = i;
            break;
        }
    }
    if (start == lines.size()) return std::nullopt;
    for (std::size_t i = start + 1; i < lines.size(); ++i) {
        const std::string& line = lines[i];
        if (line.empty() || line.front() == ' ' || !is_exception_line(line)) continue;
        std::string text = line;
        for (std::size_t next = i + 1; next < lines.size() && next <= i + kShownLines; ++next) {
            if (trim(lines[next]).empty()) break;
            text += "\n" + lines[next];
        }
        return text;
    }
    return std::nullopt;
}

std::string exit_words(const ProgramEnd& end, const std::string& said) {
    const std::string limit = end.memory_limit.count() > 0
                                  ? format(" (memory limit {})", to_string(end.memory_limit))
                                  : "";
    std::string words;
    if (end.out_of_memory) {
        words = "out of memory: the program was killed by the kernel" + limit;
    } else if (end.exit.signal != 0) {
        words = "killed by " + sys::describe(end.exit);
    } else if (end.exit.code == 137) {
        words = "killed by SIGKILL (signal 9)";
        if (!limit.empty()) words += ", probably out of memory" + limit;
    }
    if (words.empty() || said.empty()) return words + said;
    return words + "; last output: " + said;
}

}  // namespace

void Tail::add(std::string_view line) {
    std::string kept(line.substr(0, kTailLineBytes));
    size_ += kept.size();
    lines_.push_back(std::move(kept));
    while (lines_.size() > kTailLines || size_ > kTailBytes) {
        size_ -= lines_.front().size();
        lines_.pop_front();
    }
}

std::string meaningful_lines(const std::deque<std::string>& lines) {
    if (std::optional<std::string> exception = last_exception(of_failing_rank(lines)))
        return *exception;
    std::vector<std::string> kept;
    for (std::size_t i = lines.size(); i-- > 0 && kept.size() < kShownLines;) {
        std::string_view line = lines[i];
        // A progress bar: what stands after its last carriage return.
        if (const std::size_t at = line.rfind('\r'); at != std::string_view::npos)
            line.remove_prefix(at + 1);
        if (!trim(line).empty()) kept.emplace_back(line);
    }
    std::ranges::reverse(kept);
    return join(kept, "\n");
}

std::optional<std::string> read_failure_file(const std::string& path) {
    // The program owns this place: no link, no FIFO, and never more than is shown.
    const sys::Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
        return std::nullopt;
    std::string text(kReasonLimit * 4, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const std::size_t got =
            sys::read_some(file.get(), std::as_writable_bytes(std::span(text).subspan(size)));
        if (got == 0) break;
        size += got;
    }
    text.resize(size);
    text = to_valid_utf8(text);
    text = std::string(trim(text));
    if (text.empty()) return std::nullopt;
    return text;
}

std::string algorithm_error(std::string_view text, int exit_code) {
    constexpr std::string_view kHead = "AlgorithmError: ";
    const std::string tail = format(", exit code: {}", exit_code);
    const std::size_t room = kReasonLimit - kHead.size() - tail.size();
    std::string body = to_valid_utf8(text);
    std::ranges::replace(body, '\0', ' ');
    return std::string(kHead) + std::string(truncate_utf8(body, room)) + tail;
}

std::string toolkit_failure(std::string_view kind, int exit_code, std::string_view message,
                            std::string_view extra, std::string_view command) {
    // The command comes last and may be long: what the reader needs must survive the cut.
    std::string text = format("{}:\nExitCode {}\nErrorMessage \"{}\"\n", kind, exit_code,
                              truncate_utf8(message, 600));
    if (!extra.empty()) text += format("ExtraInfo \"{}\"\n", extra);
    return text + format("Command \"{}\"", command);
}

std::string failure_reason(const ProgramEnd& end, const std::optional<std::string>& failure_file,
                           const Tail& tail) {
    const int code = end.exit.shell_code();
    const int shown = end.script_mode ? 1 : code;  // the toolkit itself exits with 1
    if (failure_file) return algorithm_error(*failure_file, shown);
    const std::string said = meaningful_lines(tail.lines());
    if (!end.script_mode) return algorithm_error(exit_words(end, said), shown);
    std::string extra;
    if (end.out_of_memory) {
        extra = "OutOfMemory: Process killed by SIGKILL (signal 9)";
        if (end.memory_limit.count() > 0)
            extra += format(", memory limit {}", to_string(end.memory_limit));
    } else if (end.exit.signal != 0) {
        extra = format("Process killed by {}", sys::describe(end.exit));
    } else if (code == 137) {
        extra = "OutOfMemory: Process killed by SIGKILL (signal 9)";
    }
    return algorithm_error(
        toolkit_failure("ExecuteUserScriptError", code, said, extra, end.command), shown);
}

}  // namespace ty::agent
