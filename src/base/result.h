// SPDX-License-Identifier: Apache-2.0
// An outcome as data: stored, collected or sent. Not for control flow; functions throw (D1).
#pragma once

#include "base/error.h"

#include <type_traits>
#include <utility>
#include <variant>

namespace ty {

template <typename T>
class Result {
public:
    Result(T value) : state_(std::move(value)) {}
    Result(Error error) : state_(std::move(error)) {}

    bool ok() const { return std::holds_alternative<T>(state_); }
    explicit operator bool() const { return ok(); }
    /// The value; throws the stored Error when there is none.
    T& value() & { return check(); }
    T&& value() && { return std::move(check()); }
    /// Precondition: !ok().
    const Error& error() const { return std::get<Error>(state_); }

private:
    T& check() {
        if (Error* error = std::get_if<Error>(&state_)) throw *error;
        return std::get<T>(state_);
    }
    std::variant<T, Error> state_;
};

/// Run fn and keep what it returned or the Error it threw. Other exceptions pass through.
template <typename Fn>
auto capture(Fn&& fn) {
    using T = std::invoke_result_t<Fn>;
    if constexpr (std::is_void_v<T>) {
        try {
            fn();
            return Result<std::monostate>(std::monostate{});
        } catch (Error& error) {
            return Result<std::monostate>(std::move(error));
        }
    } else {
        try {
            return Result<T>(fn());
        } catch (Error& error) {
            return Result<T>(std::move(error));
        }
    }
}

}  // namespace ty
