// SPDX-License-Identifier: Apache-2.0
// From what happened to the Outcome that is reported: whose fault it is, and in which words.
#pragma once

#include "agent/orders.h"
#include "agent/runner.h"
#include "agent/script/launch.h"
#include "base/error.h"
#include "plan/plan.h"

#include <optional>
#include <string>

namespace ty::agent {

plan::Outcome failed(const std::string& reason, std::optional<int> code = std::nullopt);
/// "InternalServerError: …".
plan::Outcome agent_error(const std::string& what);
/// Stopped or interrupted, whichever was ordered.
plan::Outcome ended_by(const Orders::Now& orders, std::optional<int> code = std::nullopt);
/// Whose fault a failed transfer is: what the request or the data can mend is the user's.
bool is_users(Code code);

/// The end of the training program. `failure_file` is the host's path of it.
plan::Outcome judge(const plan::NodePlan& plan, const Launch& launch, const RunEnd& end,
                    const Orders::Now& orders, const std::string& failure_file);

}  // namespace ty::agent
