// SPDX-License-Identifier: Apache-2.0
// See auth.h.
#include "api/auth.h"

#include "api/temporary_keys.h"

namespace ty::api {

Authenticator::Authenticator(aws::Credentials root, FindAttemptKeys attempts, const Clock& clock)
    : root_(std::move(root)), attempts_(std::move(attempts)), clock_(clock) {}

std::optional<aws::Credentials> Authenticator::find_keys(const std::string& access_key) const {
    if (access_key == root_.access_key) return root_;
    if (auto keys = attempts_(access_key)) return keys;
    return find_temporary_keys(root_, access_key, clock_.now());
}

aws::Verified Authenticator::check(const http::Request& request, std::string_view body_hash) {
    const auto lookup = [this](const std::string& access_key) { return find_keys(access_key); };
    return aws::verify(request, body_hash, lookup, clock_.now(), &signing_keys_);
}

}  // namespace ty::api
