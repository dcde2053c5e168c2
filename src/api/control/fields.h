// SPDX-License-Identifier: Apache-2.0
// Reading the JSON object of a request: every problem is told at once, by field and with a remedy.
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "base/time.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::api::control {

class Fields {
public:
    /// Throws invalid when `body` is no JSON object; an empty body is an empty object. Members
    /// other than `known` are problems that name the nearest.
    Fields(const std::string& body, std::span<const std::string_view> known);
    ~Fields();

    bool has(const char* name) const;
    std::optional<std::string> text(const char* name);
    /// One of `choices`.
    std::optional<std::string> choice(const char* name, std::span<const std::string_view> choices);
    std::optional<std::int64_t> whole(const char* name, std::int64_t low, std::int64_t high);
    /// A number of seconds, to the millisecond.
    std::optional<milliseconds> time(const char* name, milliseconds low, milliseconds high);
    void problem(const char* name, std::string what);
    /// Throws invalid with everything wrong.
    void finish() const;

private:
    std::unique_ptr<Json> body_;
    std::vector<Problem> problems_;
};

}  // namespace ty::api::control
