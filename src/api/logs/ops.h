// SPDX-License-Identifier: Apache-2.0
// CloudWatch Logs: one function per operation, in ops/<operation>.cc; the table is in service.cc.
// Each takes the call and gives the answer's JSON document. Private to api/logs/.
#pragma once

#include "api/api.h"

#include <string>

namespace ty::api::logs {

std::string create_log_group(Call& call);
std::string create_log_stream(Call& call);
std::string put_log_events(Call& call);
std::string describe_log_groups(Call& call);
std::string describe_log_streams(Call& call);
std::string get_log_events(Call& call);
std::string filter_log_events(Call& call);
std::string list_tags_log_group(Call& call);

}  // namespace ty::api::logs
