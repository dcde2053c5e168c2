// SPDX-License-Identifier: Apache-2.0
// The one exception type of Trainyard (D1). Everything that fails throws ty::Error; exactly five
// places catch it: the HTTP call, the reconcile step, the agent command, a C callback, main.
//
// `code` says what a caller may do about it, `reason` is a stable machine word ("NoSuchKey"),
// `message` is for people: lower case, no full stop, names the object, the value and the remedy.
#pragma once

#include "base/format.h"

#include <cerrno>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty {

/// What kind of failure, seen from the caller: retry, correct the request, or report a bug.
enum class Code {
    invalid,      ///< the request or the data is wrong; correct it
    not_found,    ///< the named object does not exist
    conflict,     ///< exists already, or changed in between
    denied,       ///< credentials or permissions
    exhausted,    ///< disk, memory, descriptors or a quota
    unavailable,  ///< a peer or service is away; retry later
    timed_out,    ///< the deadline passed
    cancelled,    ///< stop was requested
    corrupt,      ///< data failed its checksum or its grammar
    unsupported,  ///< known, but not offered here
    internal,     ///< our bug
};

std::string_view to_string(Code code);

/// One of several things wrong with a request; `path` is the field, e.g.
/// "resourceConfig.instanceCount".
struct Problem {
    std::string path;
    std::string message;
    bool operator==(const Problem&) const = default;
};

class Error : public std::exception {
public:
    Error(Code code, std::string reason, std::string message, std::vector<Problem> problems = {});

    Code code() const { return code_; }
    /// Stable word that tables map to wire codes; may be empty.
    const std::string& reason() const { return reason_; }
    const std::string& message() const { return message_; }
    const std::vector<Problem>& problems() const { return problems_; }
    /// errno of the failed system call, or 0.
    int os_error() const { return os_error_; }

    /// Context lines, innermost first; rendered before the message by what().
    const std::vector<std::string>& trail() const { return trail_; }
    void add_context(std::string line);
    void set_os_error(int number) { os_error_ = number; }

    /// "outer: inner: message".
    const char* what() const noexcept override { return what_.c_str(); }

private:
    void render();

    Code code_;
    std::string reason_;
    std::string message_;
    std::vector<Problem> problems_;
    std::vector<std::string> trail_;
    std::string what_;
    int os_error_ = 0;
};

/// throw_error(Code::not_found, "NoSuchKey", "s3://{}/{} does not exist", bucket, key);
template <typename... Args>
[[noreturn]] void throw_error(Code code, std::string_view reason, FormatString<Args...> text,
                              Args&&... args) {
    throw Error(code, std::string(reason), fmt::format(text, std::forward<Args>(args)...));
}

/// Error for a failed system call: maps `number` to a Code and appends strerror.
Error errno_error(int number, std::string message);

/// throw_errno("open {}", path), straight after the failed call.
template <typename... Args>
[[noreturn]] void throw_errno(FormatString<Args...> text, Args&&... args) {
    const int number = errno;
    throw errno_error(number, fmt::format(text, std::forward<Args>(args)...));
}

/// Run fn; an Error passing through gains `context` as one trail line. For module borders only.
template <typename Fn>
auto in_context(const std::string& context, Fn&& fn) -> decltype(fn()) {
    try {
        return std::forward<Fn>(fn)();
    } catch (Error& error) {
        error.add_context(context);
        throw;
    }
}

/// Programmer error; stays on in release (R25). User input must never reach one.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace ty

#define TY_ASSERT(expression) \
    ((expression) ? void() : ::ty::assertion_failed(#expression, __FILE__, __LINE__))
