// SPDX-License-Identifier: Apache-2.0
// Who may ask: the owner, a running attempt of a job, or a holder of temporary keys. There are no
// policies; a valid signature of any of the three is enough.
#pragma once

#include "aws/aws.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ty::api {

class Authenticator {
public:
    /// Secret of a running attempt's access key; nullopt otherwise.
    using FindAttemptKeys =
        std::function<std::optional<aws::Credentials>(const std::string& access_key)>;

    Authenticator(aws::Credentials root, FindAttemptKeys attempts, const Clock& clock);

    /// Throws what aws::verify throws, and denied "ExpiredToken". `body_hash` as there. Any thread.
    aws::Verified check(const http::Request& request, std::string_view body_hash);

private:
    std::optional<aws::Credentials> find_keys(const std::string& access_key) const;

    const aws::Credentials root_;
    const FindAttemptKeys attempts_;
    const Clock& clock_;
    aws::SigningKeys signing_keys_;
};

}  // namespace ty::api
