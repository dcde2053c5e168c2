// SPDX-License-Identifier: Apache-2.0
#include "engine/local/gpus.h"

#include "base/error.h"

#include <algorithm>

namespace ty::engine {

std::vector<std::vector<int>> give_gpus(const GpuWish& wish) {
    std::vector<std::vector<int>> given(static_cast<std::size_t>(wish.agents));
    if (wish.each == 0) return given;
    std::vector<int> free;
    for (int gpu = 0; gpu < wish.total; ++gpu)
        if (std::ranges::count(wish.taken, gpu) == 0) free.push_back(gpu);
    const int needed = wish.each * wish.agents;
    if (needed > static_cast<int>(free.size())) {
        throw_error(Code::exhausted, "NoGpus",
                    "{} GPUs are needed ({} for each of {} hosts) and {} of this machine's {} are "
                    "free; wait for running jobs or ask for fewer",
                    needed, wish.each, wish.agents, free.size(), wish.total);
    }
    auto next = free.begin();
    for (std::vector<int>& list : given) {
        list.assign(next, next + wish.each);
        next += wish.each;
    }
    return given;
}

}  // namespace ty::engine
