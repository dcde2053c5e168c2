// SPDX-License-Identifier: Apache-2.0
// Temporary credentials without state: the access key carries its expiry, secret and token are
// derived from it with the owner's secret. A restarted daemon knows them as well as the one that
// issued them, and rotating the owner's secret ends them all.
#pragma once

#include "aws/aws.h"
#include "base/random.h"

#include <optional>
#include <string>
#include <string_view>

namespace ty::api {

/// "ASIA…" keys valid until `expiry` (whole seconds).
aws::Credentials issue_temporary_keys(const aws::Credentials& root, Ids& ids, Instant expiry);
/// nullopt: the access key is none of ours. Throws denied "ExpiredToken". A forged key derives a
/// secret that nobody was told, so its signature fails.
std::optional<aws::Credentials> find_temporary_keys(const aws::Credentials& root,
                                                    std::string_view access_key, Instant now);

}  // namespace ty::api
