// SPDX-License-Identifier: Apache-2.0
// `trainyard-agent launch`: the torchrun drop-in.
#pragma once

#include <string>
#include <vector>

namespace ty::agent {

/// The whole command; `words` follow "launch". Returns the exit code. No thread may exist yet.
int launch_main(const std::vector<std::string>& words);

}  // namespace ty::agent
