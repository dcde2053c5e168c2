// SPDX-License-Identifier: Apache-2.0
// What the parts of a job's life on one node share: the plan, its folders, and the ways to tell and
// to be told. Built by run_agent() once the plan is here; everything in it outlives the job.
#pragma once

#include "agent/contract/layout.h"
#include "agent/control_plane.h"
#include "agent/orders.h"
#include "agent/shipping/log_pump.h"
#include "agent/transfer/download.h"
#include "agent/uplink.h"
#include "base/time.h"
#include "plan/plan.h"

namespace ty::agent {

struct NodeContext {
    const Start& start;
    const plan::NodePlan& plan;
    const HostPaths& paths;
    LogPump& pump;
    Uplink& uplink;
    Orders& orders;
    Partition& partition;
    SystemClock& clock;
    MakeClient make_client;  ///< of the job's object storage; held back while the network is cut
    Deadline by = Deadline::never();  ///< for transfers

    /// Other agents work on the same results.
    bool has_peers() const { return plan.hosts.size() > 1 || plan.elastic.has_value(); }
    void say(std::string_view text) const { pump.say(text); }
};

}  // namespace ty::agent
