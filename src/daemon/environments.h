// SPDX-License-Identifier: Apache-2.0
// What image names can stand for on this machine: the configured environments, AWS's framework
// images over the Pythons found here, and the built-in programs beside the daemon.
#pragma once

#include "daemon/config.h"
#include "images/images.h"

namespace ty::daemon {

/// Which Pythons to ask: the configured ones, the active venv, those on PATH, the system's; in
/// order of preference, without duplicates; paths that do not exist are left out.
std::vector<std::string> candidate_interpreters(const Config& config);

images::Catalogue open_catalogue(const Config& config);

}  // namespace ty::daemon
