// SPDX-License-Identifier: Apache-2.0
// Names of the account's principals as ARNs in the partition of the caller's region.
#pragma once

#include "api/api.h"

#include <string>
#include <string_view>

namespace ty::api {

/// "arn:aws:iam::000000000000:role/<name>"; `path` as IAM writes it, "/" or "/service-role/".
std::string role_arn(const Call& call, std::string_view name, std::string_view path = "/");
/// "arn:aws:sts::000000000000:assumed-role/<role>/<session>"
std::string assumed_role_arn(const Call& call, std::string_view role, std::string_view session);
/// A stable unique id, "AROA…" for roles: derived from the name.
std::string principal_id(std::string_view prefix, std::string_view name);
/// The session name everybody but AssumeRole's own sessions is seen under.
inline constexpr std::string_view kSession = "trainyard";

}  // namespace ty::api
