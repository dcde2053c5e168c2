// SPDX-License-Identifier: Apache-2.0
// SimulatePrincipalPolicy and the listings of policies: whoever holds the keys may do everything.
#include "api/arn.h"
#include "api/iam/ops.h"
#include "base/text.h"

#include <array>

namespace ty::api::iam {

namespace {

constexpr std::array<std::string_view, 2> kManaged{"AmazonSageMakerFullAccess",
                                                   "AmazonS3FullAccess"};

std::string policy_arn(const Call& call, std::string_view account, std::string_view name) {
    return format("arn:{}:iam::{}:policy/{}", aws::partition_of(call.caller.region), account, name);
}

void write_decision(aws::XmlWriter& xml, const std::string& action, const std::string& resource) {
    xml.open("member");
    xml.element("EvalActionName", action)
        .element("EvalResourceName", resource)
        .element("EvalDecision", "allowed");
    xml.element("MatchedStatements", "").element("MissingContextValues", "");
    xml.close();
}

}  // namespace

http::Response simulate_principal_policy(Call& call, const Form& form) {
    form.require("PolicySourceArn");
    const std::vector<std::string> actions = form.list("ActionNames");
    std::vector<std::string> resources = form.list("ResourceArns");
    if (actions.empty())
        throw_error(Code::invalid, "ValidationError",
                    "1 validation error detected: Value null at 'actionNames' failed to satisfy "
                    "constraint: Member must not be null");
    if (resources.empty()) resources = {"*"};
    return query_reply("SimulatePrincipalPolicy", kNamespace, call.caller.request_id,
                       [&](aws::XmlWriter& xml) {
                           xml.element("IsTruncated", false).open("EvaluationResults");
                           for (const std::string& action : actions)
                               for (const std::string& resource : resources)
                                   write_decision(xml, action, resource);
                           xml.close();
                       });
}

http::Response list_attached_role_policies(Call& call, const Form& form) {
    form.require("RoleName");
    return query_reply("ListAttachedRolePolicies", kNamespace, call.caller.request_id,
                       [&](aws::XmlWriter& xml) {
                           xml.open("AttachedPolicies");
                           for (const std::string_view name : kManaged)
                               xml.open("member")
                                   .element("PolicyName", name)
                                   .element("PolicyArn", policy_arn(call, "aws", name))
                                   .close();
                           xml.close().element("IsTruncated", false);
                       });
}

http::Response list_role_policies(Call& call, const Form& form) {
    form.require("RoleName");
    return query_reply(
        "ListRolePolicies", kNamespace, call.caller.request_id,
        [](aws::XmlWriter& xml) { xml.element("PolicyNames", "").element("IsTruncated", false); });
}

http::Response create_policy(Call& call, const Form& form) {
    const std::string name = form.require("PolicyName");
    form.require("PolicyDocument");
    const std::string now = format_iso8601(call.services.clock.now());
    return query_reply(
        "CreatePolicy", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
            xml.open("Policy")
                .element("PolicyName", name)
                .element("PolicyId", principal_id("ANPA", name));
            xml.element("Arn", policy_arn(call, call.services.settings.account, name))
                .element("Path", "/");
            xml.element("DefaultVersionId", "v1")
                .element("AttachmentCount", 0)
                .element("IsAttachable", true);
            xml.element("CreateDate", now).element("UpdateDate", now).close();
        });
}

}  // namespace ty::api::iam
