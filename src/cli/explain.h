// SPDX-License-Identifier: Apache-2.0
// Errors for people: what happened, why, what to do. One of the three renderers of ty::Error.
#pragma once

#include "base/error.h"

#include <string>

namespace ty::cli {

struct Explanation {
    std::string text;  ///< up to three lines
    int exit_code = 1;
};
/// `what` names the attempt: "describe job x".
Explanation explain(const Error& error, const std::string& what);

}  // namespace ty::cli
