// SPDX-License-Identifier: Apache-2.0
// The state folder as the daemon owns it: one daemon at a time, the owner's keys, and the file that
// tells clients where it listens.
#pragma once

#include "aws/aws.h"
#include "base/random.h"
#include "daemon/config.h"

#include <cstdint>

namespace ty::daemon {

/// Throws conflict when another daemon holds the folder. Keep it for the daemon's life.
sys::FileLock lock_home(const sys::fs::path& home);

/// The keys of this home; made once, kept in keys.json (0600).
aws::Credentials load_or_create_keys(const sys::fs::path& home, Ids& ids);

/// Listen where the configuration says; without a port: the last one used, else 4545, else any free
/// one.
sys::Listener open_listener(const Config& config);

/// Write daemon.json (0600) for the command line.
void announce(const Config& config, const std::string& endpoint, const aws::Credentials& keys);

}  // namespace ty::daemon
