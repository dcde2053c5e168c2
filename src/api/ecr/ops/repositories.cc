// SPDX-License-Identifier: Apache-2.0
// Repositories by name, and an authorization token that docker accepts as text.
#include "api/ecr/ops.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::api::ecr {

namespace {

constexpr double kCreated = 1704067200.0;

Json parse_object(const Call& call) {
    if (call.body.empty()) return Json::object();
    const Json document = parse_json(call.body);
    if (!document.is_object())
        throw_error(Code::invalid, "SerializationException", "the request body is no JSON object");
    return document;
}

std::string text_of(const Json& document, const char* name) {
    const auto found = document.find(name);
    if (found == document.end()) return {};
    if (!found->is_string())
        throw_error(Code::invalid, "SerializationException", "{} must be a string", name);
    return found->get<std::string>();
}

std::vector<std::string> texts_of(const Json& document, const char* name) {
    std::vector<std::string> out;
    const auto found = document.find(name);
    if (found == document.end() || found->is_null()) return out;
    if (!found->is_array())
        throw_error(Code::invalid, "SerializationException", "{} must be a list", name);
    for (const Json& item : *found) {
        if (!item.is_string())
            throw_error(Code::invalid, "SerializationException", "{} must be a list of strings",
                        name);
        out.push_back(item.get<std::string>());
    }
    return out;
}

void check_name(const std::string& name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               std::string_view("._-/").find(c) != std::string_view::npos;
    };
    if (name.size() >= 2 && name.size() <= 256 && std::ranges::all_of(name, allowed)) return;
    throw_error(Code::invalid, "InvalidParameterException",
                "Invalid parameter at 'repositoryName' failed to satisfy constraint: 'must satisfy "
                "regular expression "
                "'(?:[a-z0-9]+(?:[._-][a-z0-9]+)*/)*[a-z0-9]+(?:[._-][a-z0-9]+)*''; got \"{}\"",
                to_valid_utf8(name.substr(0, 80)));
}

std::string registry(const Call& call) {
    return format("{}.dkr.ecr.{}.{}", call.services.settings.account, call.caller.region,
                  aws::dns_suffix_of(call.caller.region));
}

Json describe(const Call& call, const std::string& name, double created) {
    Json out;
    out["repositoryArn"] =
        format("arn:{}:ecr:{}:{}:repository/{}", aws::partition_of(call.caller.region),
               call.caller.region, call.services.settings.account, name);
    out["registryId"] = call.services.settings.account;
    out["repositoryName"] = name;
    out["repositoryUri"] = registry(call) + '/' + name;
    out["createdAt"] = created;
    out["imageTagMutability"] = "MUTABLE";
    return out;
}

}  // namespace

std::string get_authorization_token(Call& call) {
    Json row;
    row["authorizationToken"] = to_base64(as_bytes("AWS:trainyard-has-no-registry"));
    row["expiresAt"] = to_epoch_seconds(call.services.clock.now() + std::chrono::hours(12));
    row["proxyEndpoint"] = "https://" + registry(call);
    Json out;
    out["authorizationData"] = Json::array({row});
    return dump_json(out);
}

std::string describe_repositories(Call& call) {
    const Json document = parse_object(call);
    Json rows = Json::array();
    for (const std::string& name : texts_of(document, "repositoryNames")) {
        check_name(name);
        rows.push_back(describe(call, name, kCreated));
    }
    Json out;
    out["repositories"] = std::move(rows);
    return dump_json(out);
}

std::string create_repository(Call& call) {
    const std::string name = text_of(parse_object(call), "repositoryName");
    check_name(name);
    Json out;
    out["repository"] = describe(call, name, to_epoch_seconds(call.services.clock.now()));
    return dump_json(out);
}

std::string describe_images(Call& call) {
    const std::string name = text_of(parse_object(call), "repositoryName");
    check_name(name);
    throw_error(Code::not_found, "ImageNotFoundException",
                "The repository with name '{}' holds no images: Trainyard has no registry and maps "
                "image names to "
                "environments of this machine",
                name);
}

std::string batch_get_image(Call& call) {
    const Json document = parse_object(call);
    check_name(text_of(document, "repositoryName"));
    Json failures = Json::array();
    const auto ids = document.find("imageIds");
    if (ids != document.end() && ids->is_array())
        for (const Json& id : *ids)
            failures.push_back({{"imageId", id},
                                {"failureCode", "ImageNotFound"},
                                {"failureReason", "Requested image not found"}});
    Json out;
    out["images"] = Json::array();
    out["failures"] = std::move(failures);
    return dump_json(out);
}

}  // namespace ty::api::ecr
