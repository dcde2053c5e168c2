// SPDX-License-Identifier: Apache-2.0
// The operations of STS, one function each; files in ops/.
#pragma once

#include "api/table.h"

namespace ty::api::sts {

inline constexpr std::string_view kNamespace = "https://sts.amazonaws.com/doc/2011-06-15/";

http::Response get_caller_identity(Call& call, const Form& form);
http::Response assume_role(Call& call, const Form& form);
http::Response get_session_token(Call& call, const Form& form);

}  // namespace ty::api::sts
