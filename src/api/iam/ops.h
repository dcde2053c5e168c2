// SPDX-License-Identifier: Apache-2.0
// The operations of IAM that scripts around training make; files in ops/. Nothing is stored: every
// role exists, every action is allowed, and what is created is acknowledged.
#pragma once

#include "api/table.h"

namespace ty::api::iam {

inline constexpr std::string_view kNamespace = "https://iam.amazonaws.com/doc/2010-05-08/";

http::Response get_role(Call& call, const Form& form);
http::Response list_roles(Call& call, const Form& form);
http::Response create_role(Call& call, const Form& form);
http::Response get_user(Call& call, const Form& form);
http::Response simulate_principal_policy(Call& call, const Form& form);
http::Response list_attached_role_policies(Call& call, const Form& form);
http::Response list_role_policies(Call& call, const Form& form);
http::Response create_policy(Call& call, const Form& form);
http::Response list_account_aliases(Call& call, const Form& form);
/// AttachRolePolicy and others that answer nothing but success; needs RoleName.
http::Response acknowledge(Call& call, const Form& form);

}  // namespace ty::api::iam
