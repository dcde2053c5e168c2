// SPDX-License-Identifier: Apache-2.0
// GetCallerIdentity: an assumed-role ARN, because the SageMaker SDK turns exactly that form into
// the execution role's ARN.
#include "api/arn.h"
#include "api/sts/ops.h"

namespace ty::api::sts {

http::Response get_caller_identity(Call& call, const Form&) {
    const std::string& role = call.services.settings.role;
    return query_reply(
        "GetCallerIdentity", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
            xml.element("Arn", assumed_role_arn(call, role, kSession));
            xml.element("UserId", format("{}:{}", principal_id("AROA", role), kSession));
            xml.element("Account", call.services.settings.account);
        });
}

}  // namespace ty::api::sts
