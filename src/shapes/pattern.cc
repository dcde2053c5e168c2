// SPDX-License-Identifier: Apache-2.0
#include "shapes/pattern.h"

#include "base/error.h"

#include <re2/re2.h>

namespace ty::shapes {

struct Expression::Compiled {
    re2::RE2 regex;
};

Expression::Expression(const char* text) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_never_capture(true);
    compiled_.reset(new Compiled{re2::RE2(text, options)});
    // The model is ours and checked in; a test compiles every pattern of it.
    TY_ASSERT(compiled_->regex.ok());
}

Expression::~Expression() = default;

bool Expression::matches(std::string_view value) const {
    return re2::RE2::FullMatch(re2::StringPiece(value.data(), value.size()), compiled_->regex);
}

}  // namespace ty::shapes
