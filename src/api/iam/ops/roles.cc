// SPDX-License-Identifier: Apache-2.0
// GetRole, ListRoles, CreateRole: the SDK reads the ARN and, in its third generation, looks for
// sagemaker.amazonaws.com in the trust policy (a URL-encoded JSON document on this wire).
#include "api/arn.h"
#include "api/iam/ops.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::api::iam {

namespace {

constexpr std::string_view kCreated = "2024-01-01T00:00:00Z";
constexpr std::string_view kTrust =
    R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"sagemaker.amazonaws.com"},"Action":"sts:AssumeRole"}]})";

std::string checked_name(const Form& form) {
    std::string name = form.require("RoleName");
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_+=,.@-").find(c) != std::string_view::npos;
    };
    if (name.size() <= 64 && std::ranges::all_of(name, allowed)) return name;
    throw_error(Code::invalid, "ValidationError",
                "The specified value for roleName is invalid. It must contain only alphanumeric "
                "characters and/or the "
                "following: +=,.@_- and be at most 64 characters long; got \"{}\"",
                to_valid_utf8(name.substr(0, 80)));
}

std::string checked_path(const Form& form) {
    const std::string path = form.get("Path", "/");
    const bool printable = std::ranges::all_of(path, [](char c) { return c > ' ' && c < 0x7F; });
    if (path.starts_with('/') && path.ends_with('/') && path.size() <= 512 && printable)
        return path;
    throw_error(
        Code::invalid, "ValidationError",
        "The specified value for path is invalid. It must begin and end with / ; got \"{}\"",
        to_valid_utf8(path.substr(0, 80)));
}

std::string checked_trust(const Form& form) {
    std::string document = form.require("AssumeRolePolicyDocument");
    const auto parsed = capture([&] { return parse_json(document); });
    if (parsed.ok()) return document;
    throw_error(Code::invalid, "MalformedPolicyDocument", "This policy contains invalid Json: {}",
                parsed.error().message());
}

struct RoleView {
    std::string name, path = "/", trust = std::string(kTrust), description,
                      created = std::string(kCreated);
    long long max_session = 3600;
};

void write_role(aws::XmlWriter& xml, const Call& call, const RoleView& role) {
    xml.element("Path", role.path)
        .element("RoleName", role.name)
        .element("RoleId", principal_id("AROA", role.name));
    xml.element("Arn", role_arn(call, role.name, role.path)).element("CreateDate", role.created);
    xml.element("AssumeRolePolicyDocument", percent_encode(role.trust));
    if (!role.description.empty()) xml.element("Description", role.description);
    xml.element("MaxSessionDuration", role.max_session);
}

}  // namespace

http::Response get_role(Call& call, const Form& form) {
    const RoleView role{.name = checked_name(form)};
    return query_reply("GetRole", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("Role");
        write_role(xml, call, role);
        xml.close();
    });
}

http::Response list_roles(Call& call, const Form&) {
    const RoleView role{.name = call.services.settings.role};
    return query_reply("ListRoles", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("Roles").open("member");
        write_role(xml, call, role);
        xml.close().close().element("IsTruncated", false);
    });
}

http::Response create_role(Call& call, const Form& form) {
    RoleView role{.name = checked_name(form)};
    role.path = checked_path(form);
    role.trust = checked_trust(form);
    role.description = form.get("Description");
    role.max_session = form.number("MaxSessionDuration", 3600, 3600, 43200);
    role.created = format_iso8601(call.services.clock.now());
    return query_reply("CreateRole", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("Role");
        write_role(xml, call, role);
        xml.close();
    });
}

http::Response acknowledge(Call& call, const Form& form) {
    checked_name(form);
    return query_reply(call.operation, kNamespace, call.caller.request_id, {});
}

}  // namespace ty::api::iam
