// SPDX-License-Identifier: Apache-2.0
// The regular expressions of the model, compiled on first use and kept: a daemon that never sees an
// ARN of a labelling job never compiles its pattern. Immutable once built; any thread.
#pragma once

#include <memory>
#include <string_view>

namespace ty::shapes {

class Expression {
public:
    explicit Expression(const char* text);
    ~Expression();
    /// The whole value matches, as with Java's String.matches.
    bool matches(std::string_view value) const;

private:
    struct Compiled;
    std::unique_ptr<Compiled> compiled_;
};

template <const char* Text>
bool matches(std::string_view value) {
    static const Expression expression(Text);
    return expression.matches(value);
}

}  // namespace ty::shapes
