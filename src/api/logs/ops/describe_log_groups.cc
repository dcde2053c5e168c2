// SPDX-License-Identifier: Apache-2.0
#include "api/logs/input.h"
#include "api/logs/ops.h"
#include "api/logs/page_token.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

namespace ty::api::logs {

std::string describe_log_groups(Call& call) {
    Input input(call);
    const auto prefix = input.group_name("logGroupNamePrefix", Need::optional);
    const auto part = input.group_name("logGroupNamePattern", Need::optional);
    const auto token = input.text("nextToken", Need::optional, 4096);
    const auto limit = std::size_t(input.number("limit", 1, 50).value_or(50));
    input.done();
    if (prefix && part)
        throw_error(Code::invalid, "InvalidParameterException",
                    "logGroupNamePrefix and logGroupNamePattern are mutually exclusive");
    const std::string after = read_page_token("groups", token);
    Json answer;
    Json& groups = answer["logGroups"] = Json::array();
    std::string last;
    for (const std::string& name : call.services.logs.groups(prefix.value_or(""))) {
        if (name <= after && !after.empty()) continue;
        if (part && to_lower(name).find(to_lower(*part)) == std::string::npos) continue;
        if (groups.size() == limit) {
            answer["nextToken"] = page_token("groups", last);
            break;
        }
        const auto created = call.services.logs.group_created(name);
        const std::string arn = group_arn(call, name);
        groups.push_back({{"logGroupName", name},
                          {"creationTime", created ? to_epoch_millis(*created) : 0},
                          {"metricFilterCount", 0},
                          {"arn", arn + ":*"},
                          {"storedBytes", 0},
                          {"logGroupClass", "STANDARD"},
                          {"logGroupArn", arn}});
        last = name;
    }
    return dump_json(answer);
}

}  // namespace ty::api::logs
