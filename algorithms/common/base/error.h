// SPDX-License-Identifier: Apache-2.0
// The one exception of the training programs, and fmt behind one name.
#pragma once

#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY  // LibTorch brings headers of its own fmt, which no library of ours matches
#endif
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace alg {

using fmt::format;

/// Something the person who started the training must know: input that cannot be used, a disk that
/// is full. main() prints what() once, writes it to /opt/ml/output/failure and exits with 1.
/// Message: lower case, no full stop; names the object, the value and the remedy.
class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
    throw Failure(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace alg
