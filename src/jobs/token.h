// SPDX-License-Identifier: Apache-2.0
// Agent tokens: "<attempt>/<host>/<mac>". Derived from a random secret of this installation and the
// attempt's random id, so that a repeated launch hands out the same token and none is stored.
#pragma once

#include "base/id.h"

#include <optional>
#include <string>

namespace ty::jobs {

struct TokenOwner {
    AttemptId attempt;
    std::string host;
};

std::string make_token(const std::string& secret, const AttemptId& attempt,
                       const std::string& host);
/// Secret of an elastic attempt's rendezvous.
std::string make_rendezvous_token(const std::string& secret, const AttemptId& attempt);
/// Whom the token was made for; nullopt when it was not made with this secret.
std::optional<TokenOwner> check_token(const std::string& secret, const std::string& token);

}  // namespace ty::jobs
