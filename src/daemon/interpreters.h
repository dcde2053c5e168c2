// SPDX-License-Identifier: Apache-2.0
// Which Pythons to ask at start: the configured ones, the active venv, those on PATH, the system's.
#pragma once

#include "daemon/config.h"

namespace ty::daemon {

/// In order of preference, without duplicates; paths that do not exist are left out.
std::vector<std::string> candidate_interpreters(const Config& config);

}  // namespace ty::daemon
