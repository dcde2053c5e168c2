// SPDX-License-Identifier: Apache-2.0
// Input channels as the program sees them, made ready before it starts. One folder per kind of
// delivery; today that is File mode (FastFile is delivered as File).
#pragma once

#include "agent/contract/layout.h"
#include "agent/transfer/download.h"
#include "plan/plan.h"

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace ty::agent {

struct StageContext {
    MakeClient make_client;
    HostPaths paths;
    std::string host;                ///< ours among `hosts`: a sharded channel gives each its part
    std::vector<std::string> hosts;  ///< sorted; empty: we are alone
    std::function<void(std::string)> say;  ///< a line of the job's log
    std::function<void(const Progress&)> on_progress;
    Deadline by = Deadline::never();
};

/// Deliver every channel. Throws with a message that names the channel; invalid and unsupported are
/// the user's, others the world's.
void stage_channels(const StageContext& context, const std::vector<plan::Channel>& channels,
                    const std::stop_token& stop);

}  // namespace ty::agent
