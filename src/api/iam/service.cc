// SPDX-License-Identifier: Apache-2.0
// IAM, as far as a training script meets it: the SDK resolves and checks the execution role,
// articles create one first.
#include "api/iam/ops.h"

#include <array>

namespace ty::api {

namespace {

constexpr std::string_view kIgnored = "Acknowledged; there are no policies to change.";

constexpr std::array kRows{
    QueryRow{"GetRole", iam::get_role, "partial",
             "Every name is a role that sagemaker.amazonaws.com may assume."},
    QueryRow{"ListRoles", iam::list_roles, "partial", "Lists the one configured role."},
    QueryRow{"GetUser", iam::get_user, "partial", "The owner."},
    QueryRow{"SimulatePrincipalPolicy", iam::simulate_principal_policy, "partial",
             "Every action is allowed."},
    QueryRow{"CreateRole", iam::create_role, "accepted",
             "Acknowledged; every role exists already."},
    QueryRow{"DeleteRole", iam::acknowledge, "accepted",
             "Acknowledged; every role goes on existing."},
    QueryRow{"UpdateAssumeRolePolicy", iam::acknowledge, "accepted", kIgnored},
    QueryRow{"AttachRolePolicy", iam::acknowledge, "accepted", kIgnored},
    QueryRow{"DetachRolePolicy", iam::acknowledge, "accepted", kIgnored},
    QueryRow{"PutRolePolicy", iam::acknowledge, "accepted", kIgnored},
    QueryRow{"DeleteRolePolicy", iam::acknowledge, "accepted", kIgnored},
    QueryRow{"TagRole", iam::acknowledge, "accepted", "Acknowledged; tags of roles are not kept."},
    QueryRow{"CreatePolicy", iam::create_policy, "accepted",
             "Acknowledged; gives an ARN to attach."},
    QueryRow{"ListAttachedRolePolicies", iam::list_attached_role_policies, "partial",
             "Names the managed policies that describe what is allowed."},
    QueryRow{"ListRolePolicies", iam::list_role_policies, "partial", "Always empty."},
    QueryRow{"ListAccountAliases", iam::list_account_aliases, "partial", "Always empty."},
};

}  // namespace

http::Response serve_iam(Call& call) {
    return serve_query_table(call, "iam", Protocol::query, kRows);
}

std::vector<OperationCoverage> iam_coverage() {
    return coverage_of("iam", std::span<const QueryRow>(kRows));
}

}  // namespace ty::api
