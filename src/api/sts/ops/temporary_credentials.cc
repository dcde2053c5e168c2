// SPDX-License-Identifier: Apache-2.0
// AssumeRole and GetSessionToken: keys that expire (temporary_keys.h). Nothing is stored.
#include "api/arn.h"
#include "api/sts/ops.h"
#include "api/temporary_keys.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::sts {

namespace {

constexpr long long kShortest = 900, kChainedLongest = 3600;

/// Keys got with other temporary keys live an hour at most, as on AWS: a job cannot make itself
/// credentials that outlast it by much.
long long duration(const Call& call, const Form& form, long long usual, long long longest) {
    const bool owner = call.caller.access_key == call.services.settings.root.access_key;
    const long long asked = form.number(
        "DurationSeconds", owner ? usual : std::min(usual, kChainedLongest), kShortest, longest);
    if (!owner && asked > kChainedLongest)
        throw_error(Code::invalid, "ValidationError",
                    "The requested DurationSeconds exceeds the 1 hour session limit for roles "
                    "assumed by role chaining");
    return asked;
}

void write_keys(aws::XmlWriter& xml, const aws::Credentials& keys, Instant expiry) {
    xml.open("Credentials");
    xml.element("AccessKeyId", keys.access_key).element("SecretAccessKey", keys.secret_key);
    xml.element("SessionToken", keys.session_token).element("Expiration", format_iso8601(expiry));
    xml.close();
}

struct RoleName {
    std::string name;
};
/// The last part of "arn:aws:iam::123456789012:role/path/name".
RoleName parse_role(const std::string& arn) {
    const std::vector<std::string> parts = split(arn, ':');
    const bool sane = parts.size() == 6 && parts[0] == "arn" && parts[2] == "iam" &&
                      parts[5].starts_with("role/");
    const std::string name = sane ? parts[5].substr(parts[5].rfind('/') + 1) : "";
    if (name.empty())
        throw_error(Code::invalid, "ValidationError", "{} is invalid", to_valid_utf8(arn));
    return {name};
}

void check_session_name(const std::string& name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_+=,.@-").find(c) != std::string_view::npos;
    };
    if (name.size() >= 2 && name.size() <= 64 && std::ranges::all_of(name, allowed)) return;
    throw_error(Code::invalid, "ValidationError",
                "1 validation error detected: Value '{}' at 'roleSessionName' failed to satisfy "
                "constraint: Member must "
                "satisfy regular expression pattern: [\\w+=,.@-]* and have length between 2 and 64",
                to_valid_utf8(name.substr(0, 80)));
}

}  // namespace

http::Response assume_role(Call& call, const Form& form) {
    const std::string role = parse_role(form.require("RoleArn")).name;
    const std::string session = form.require("RoleSessionName");
    check_session_name(session);
    const Instant expiry = call.services.clock.now() + seconds(duration(call, form, 3600, 43200));
    const aws::Credentials keys =
        issue_temporary_keys(call.services.settings.root, call.services.ids, expiry);
    return query_reply("AssumeRole", kNamespace, call.caller.request_id, [&](aws::XmlWriter& xml) {
        write_keys(xml, keys, expiry);
        xml.open("AssumedRoleUser");
        xml.element("AssumedRoleId", format("{}:{}", principal_id("AROA", role), session));
        xml.element("Arn", assumed_role_arn(call, role, session));
        xml.close();
    });
}

http::Response get_session_token(Call& call, const Form& form) {
    const Instant expiry = call.services.clock.now() + seconds(duration(call, form, 43200, 129600));
    const aws::Credentials keys =
        issue_temporary_keys(call.services.settings.root, call.services.ids, expiry);
    return query_reply("GetSessionToken", kNamespace, call.caller.request_id,
                       [&](aws::XmlWriter& xml) { write_keys(xml, keys, expiry); });
}

}  // namespace ty::api::sts
