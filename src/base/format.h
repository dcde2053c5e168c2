// SPDX-License-Identifier: Apache-2.0
// The only door to fmt. std::format is absent from g++ 12; when it arrives this header changes and
// nothing else does. fmt's out-of-line parts are compiled once, in format.cc, so that no binary of
// ours needs libfmt.so at run time.
#pragma once

#include <fmt/format.h>

namespace ty {

using fmt::format;
template <typename... Args>
using FormatString = fmt::format_string<Args...>;

}  // namespace ty
