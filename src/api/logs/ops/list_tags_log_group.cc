// SPDX-License-Identifier: Apache-2.0
#include "api/logs/input.h"
#include "api/logs/ops.h"

namespace ty::api::logs {

std::string list_tags_log_group(Call& call) {
    Input input(call);
    const std::string group = input.group_name("logGroupName", Need::required).value_or("");
    input.done();
    require_group(call, group);
    return R"({"tags":{}})";
}

}  // namespace ty::api::logs
