// SPDX-License-Identifier: Apache-2.0
// Who tells us that this node goes away: a file, an HTTP document, an end time. (Signals and
// POST /drain come through the launcher itself.)
#pragma once

#include "agent/launcher/options/options.h"
#include "sys/sys.h"

#include <functional>
#include <memory>
#include <string>

namespace ty::agent {

struct Notice {
    std::optional<milliseconds> deadline;  ///< from now; absent: the source does not say
    std::string why;                       ///< "notice file /run/preempt", "end time 2026-…"
};

/// Calls on_notice once per source, from the poller. File: appears (or is there); its text is
/// empty, a number of seconds, an ISO time, or JSON with "time" or "grace". URL: polled every
/// second by a thread; 404 is "nothing", 200 with JSON {"action", "time"} (the cloud's spot
/// document) or a number is a notice; unreachable is not. End time: `drain_before` ahead of it.
class NoticeSources {
public:
    NoticeSources(sys::Poller& poller, const LaunchOptions& options, const Clock& clock,
                  std::function<void(const Notice&)> on_notice);
    ~NoticeSources();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ty::agent
