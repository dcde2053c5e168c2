// SPDX-License-Identifier: Apache-2.0
// Identities are types: a JobId cannot be passed where an AttemptId is wanted.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <utility>

namespace ty {

template <typename Tag>
class Id {
public:
    Id() = default;
    explicit Id(std::string text) : text_(std::move(text)) {}
    const std::string& str() const { return text_; }
    bool empty() const { return text_.empty(); }
    auto operator<=>(const Id&) const = default;

private:
    std::string text_;
};

using JobId = Id<struct JobTag>;  ///< internal key of one job, "j-" + 20 base32 characters
using AttemptId =
    Id<struct AttemptTag>;  ///< one start of a job on one set of nodes: "<job id>.<n>"

}  // namespace ty

template <typename Tag>
struct std::hash<ty::Id<Tag>> {
    std::size_t operator()(const ty::Id<Tag>& id) const {
        return std::hash<std::string>()(id.str());
    }
};
