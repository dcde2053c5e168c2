// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ty {

std::string_view to_string(Code code) {
    switch (code) {
        case Code::invalid:
            return "invalid";
        case Code::not_found:
            return "not_found";
        case Code::conflict:
            return "conflict";
        case Code::denied:
            return "denied";
        case Code::exhausted:
            return "exhausted";
        case Code::unavailable:
            return "unavailable";
        case Code::timed_out:
            return "timed_out";
        case Code::cancelled:
            return "cancelled";
        case Code::corrupt:
            return "corrupt";
        case Code::unsupported:
            return "unsupported";
        case Code::internal:
            return "internal";
    }
    return "internal";
}

Error::Error(Code code, std::string reason, std::string message, std::vector<Problem> problems)
    : code_(code),
      reason_(std::move(reason)),
      message_(std::move(message)),
      problems_(std::move(problems)) {
    render();
}

void Error::add_context(std::string line) {
    trail_.push_back(std::move(line));
    render();
}

void Error::render() {
    what_.clear();
    for (auto it = trail_.rbegin(); it != trail_.rend(); ++it) what_ += *it + ": ";
    what_ += message_;
    for (const Problem& problem : problems_) what_ += "; " + problem.path + ": " + problem.message;
}

namespace {

Code code_of_errno(int number) {
    switch (number) {
        case ENOENT:
        case ENOTDIR:
        case ESRCH:
            return Code::not_found;
        case EEXIST:
        case ENOTEMPTY:
            return Code::conflict;
        case EACCES:
        case EPERM:
        case EROFS:
            return Code::denied;
        case ENOSPC:
        case EDQUOT:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
            return Code::exhausted;
        case EAGAIN:
        case ECONNREFUSED:
        case ECONNRESET:
        case EPIPE:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ECONNABORTED:
            return Code::unavailable;
        case ETIMEDOUT:
            return Code::timed_out;
        case ECANCELED:
            return Code::cancelled;
        case EINVAL:
        case ENAMETOOLONG:
        case ELOOP:
        case EISDIR:
            return Code::invalid;
        case ENOSYS:
        case EOPNOTSUPP:
            return Code::unsupported;
        default:
            return Code::internal;
    }
}

}  // namespace

Error errno_error(int number, std::string message) {
    char buffer[128] = {};
    message += ": ";
    message += strerror_r(number, buffer, sizeof buffer);
    Error error(code_of_errno(number), "", std::move(message));
    error.set_os_error(number);
    return error;
}

void assertion_failed(const char* expression, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    std::abort();
}

}  // namespace ty
