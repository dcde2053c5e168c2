// SPDX-License-Identifier: Apache-2.0
#include "api/logs/input.h"
#include "api/logs/ops.h"

namespace ty::api::logs {

std::string create_log_stream(Call& call) {
    Input input(call);
    const std::string group = input.group_name("logGroupName", Need::required).value_or("");
    const std::string stream = input.stream_name("logStreamName", Need::required).value_or("");
    input.done();
    require_group(call, group);
    if (call.services.logs.find_stream({group, stream}))
        throw_error(Code::conflict, "ResourceAlreadyExistsException",
                    "The specified log stream already exists");
    call.services.logs.create_stream({group, stream});
    return "{}";
}

}  // namespace ty::api::logs
