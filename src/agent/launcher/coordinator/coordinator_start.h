// SPDX-License-Identifier: Apache-2.0
// What the hosting agent hands to the coordinator process: descriptors by number, and a JSON
// document.
#pragma once

#include "agent/launcher/link/frames.h"
#include "rendezvous/rendezvous.h"

#include <string>
#include <vector>

namespace ty::agent {

inline constexpr int kStartFd = 3;     ///< the document, read to its end
inline constexpr int kListenerFd = 4;  ///< bound and listening; stays open in the agent
inline constexpr int kMemoryFd = 5;    ///< and the next: MemorySlots
inline constexpr int kOldPlaceFd = 7;  ///< a second listener, when the document says so

/// A member of the last generation whose agent is known to be gone.
struct DeadNode {
    std::string id, host;
};

struct CoordinatorStart {
    rendezvous::Policy policy;
    JobSecret secret;
    std::string log;       ///< path of the durable log; empty: none
    std::string snapshot;  ///< where to go on from, unless the memory slots know better
    bool needs_majority = false;
    bool two_listeners = false;
    std::string host;             ///< node id of the agent, told to every node
    std::vector<DeadNode> dead;   ///< together with `snapshot`
    bool abandon_absent = false;  ///< who has not come when all fences have fallen is dead, too
    long parent = 0;              ///< the agent: when it is gone, so are we
};
std::string encode(const CoordinatorStart& start);
CoordinatorStart decode_start(std::string_view text);

}  // namespace ty::agent
