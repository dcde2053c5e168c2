// SPDX-License-Identifier: Apache-2.0
// See arn.h.
#include "api/arn.h"

#include "base/hash.h"
#include "base/text.h"

namespace ty::api {

std::string role_arn(const Call& call, std::string_view name, std::string_view path) {
    return format("arn:{}:iam::{}:role{}{}", aws::partition_of(call.caller.region),
                  call.services.settings.account, path, name);
}

std::string assumed_role_arn(const Call& call, std::string_view role, std::string_view session) {
    return format("arn:{}:sts::{}:assumed-role/{}/{}", aws::partition_of(call.caller.region),
                  call.services.settings.account, role, session);
}

std::string principal_id(std::string_view prefix, std::string_view name) {
    return std::string(prefix) + to_upper(sha256_hex(name).substr(0, 17));
}

}  // namespace ty::api
