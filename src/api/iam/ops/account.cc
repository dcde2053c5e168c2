// SPDX-License-Identifier: Apache-2.0
// GetUser and ListAccountAliases: the account and its owner.
#include "api/arn.h"
#include "api/iam/ops.h"

namespace ty::api::iam {

http::Response get_user(Call& call, const Form& form) {
    const std::string name = form.get("UserName", kSession);
    return query_reply("GetUser", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("User")
            .element("Path", "/")
            .element("UserName", name)
            .element("UserId", principal_id("AIDA", name));
        xml.element("Arn", format("arn:{}:iam::{}:user/{}", aws::partition_of(call.caller.region),
                                  call.services.settings.account, name));
        xml.element("CreateDate", "2024-01-01T00:00:00Z").close();
    });
}

http::Response list_account_aliases(Call& call, const Form&) {
    return query_reply("ListAccountAliases", kNamespace, call.caller.request_id,
                       [](aws::XmlWriter& xml) {
                           xml.element("IsTruncated", false).element("AccountAliases", "");
                       });
}

}  // namespace ty::api::iam
