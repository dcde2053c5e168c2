// SPDX-License-Identifier: Apache-2.0
// STS: who am I, and temporary keys. There is one account and one role.
#include "api/sts/ops.h"

#include <array>

namespace ty::api {

namespace {

constexpr std::array kRows{
    QueryRow{
        "GetCallerIdentity", sts::get_caller_identity, "full",
        "Every caller is the execution role, so that get_execution_role() of the SDK finds it."},
    QueryRow{"AssumeRole", sts::assume_role, "partial",
             "Any role can be assumed; policies, tags and MFA are accepted and ignored."},
    QueryRow{"GetSessionToken", sts::get_session_token, "partial", "MFA is accepted and ignored."},
};
constexpr std::array<std::string_view, 8> kRefused{
    "AssumeRoleWithSAML",         "AssumeRoleWithWebIdentity", "AssumeRoot",
    "DecodeAuthorizationMessage", "GetAccessKeyInfo",          "GetDelegatedAccessToken",
    "GetFederationToken",         "GetWebIdentityToken"};

}  // namespace

http::Response serve_sts(Call& call) {
    return serve_query_table(call, "sts", Protocol::query, kRows);
}

std::vector<OperationCoverage> sts_coverage() {
    auto out = coverage_of("sts", std::span<const QueryRow>(kRows));
    for (const std::string_view name : kRefused)
        out.push_back(
            {"sts", std::string(name), "refused", "NotImplemented, naming the operation."});
    return out;
}

}  // namespace ty::api
