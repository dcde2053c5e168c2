// SPDX-License-Identifier: Apache-2.0
#include "jobs/token.h"

#include "base/hash.h"
#include "base/text.h"

namespace ty::jobs {

std::string make_token(const std::string& secret, const AttemptId& attempt,
                       const std::string& host) {
    const std::string name = attempt.str() + "/" + host;
    return name + "/" + to_hex(hmac_sha256(as_bytes(secret), "agent/" + name));
}

std::string make_rendezvous_token(const std::string& secret, const AttemptId& attempt) {
    return to_hex(hmac_sha256(as_bytes(secret), "rendezvous/" + attempt.str()));
}

std::optional<TokenOwner> check_token(const std::string& secret, const std::string& token) {
    constexpr std::size_t kLongest = 256;
    if (token.size() > kLongest) return std::nullopt;
    const std::vector<std::string> parts = split(token, '/');
    if (parts.size() != 3) return std::nullopt;
    TokenOwner owner{AttemptId(parts[0]), parts[1]};
    if (!equal_in_constant_time(make_token(secret, owner.attempt, owner.host), token))
        return std::nullopt;
    return owner;
}

}  // namespace ty::jobs
