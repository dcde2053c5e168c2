// SPDX-License-Identifier: Apache-2.0
// The default engine: agents are processes of this machine. They are started by the daemon but do
// not depend on it: a daemon that is killed leaves them running, and the next one adopts them.
#pragma once

#include "engine/engine.h"

#include <filesystem>
#include <memory>
#include <optional>

namespace ty::engine {

struct LocalOptions {
    std::filesystem::path agent;  ///< path of the trainyard-agent program
    std::filesystem::path state;  ///< the daemon's state folder; runs live in <state>/runs
    std::optional<int> gpus;      ///< to give out; nullopt: those of the machine
};

/// Scans <state>/runs for agents of an earlier daemon. Throws denied, exhausted when the folder
/// cannot be used. Destroying it leaves the agents running.
std::unique_ptr<Engine> make_local(LocalOptions options);

}  // namespace ty::engine
