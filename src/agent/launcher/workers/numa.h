// SPDX-License-Identifier: Apache-2.0
// --numa-binding: which CPUs each worker may use, from where its GPU is plugged in. The modes and
// their results are torch.numa's (PyTorch 2.13); numactl is not needed.
#pragma once

#include "sys/sys.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ty::agent {

/// What the answer depends on; a test gives a tree of its own.
struct NumaSource {
    sys::fs::path root = "/";                    ///< of /sys and /proc
    std::set<int> allowed;                       ///< CPUs this process may use
    std::optional<std::string> visible_devices;  ///< CUDA_VISIBLE_DEVICES
};
NumaSource this_machine();

/// CPUs by local rank; worker i uses the i-th visible GPU, in the order of their PCI addresses.
/// `mode`: node, socket, exclusive or core-complex. Throws invalid when a worker has no GPU or
/// nothing is left to bind it to.
std::vector<std::vector<int>> numa_cpus(const std::string& mode, int workers,
                                        const NumaSource& source);

}  // namespace ty::agent
