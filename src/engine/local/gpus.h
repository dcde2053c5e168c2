// SPDX-License-Identifier: Apache-2.0
// Which GPUs the agents of one launch get. Pure.
#pragma once

#include <string>
#include <vector>

namespace ty::engine {

struct GpuWish {
    int total = 0;           ///< of the machine, numbered from 0
    std::vector<int> taken;  ///< by agents that run
    int each = 0;
    int agents = 0;
};
/// A list for each agent: disjoint, lowest numbers first. Throws exhausted, naming how many are
/// free.
std::vector<std::vector<int>> give_gpus(const GpuWish& wish);

}  // namespace ty::engine
