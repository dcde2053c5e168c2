// SPDX-License-Identifier: Apache-2.0
#include "api/logs/input.h"
#include "api/logs/ops.h"

namespace ty::api::logs {

std::string create_log_group(Call& call) {
    Input input(call);
    const std::string group = input.group_name("logGroupName", Need::required).value_or("");
    input.done();
    if (call.services.logs.group_created(group))
        throw_error(Code::conflict, "ResourceAlreadyExistsException",
                    "The specified log group already exists");
    call.services.logs.create_group(group);
    return "{}";
}

}  // namespace ty::api::logs
