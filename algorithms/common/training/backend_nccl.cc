// SPDX-License-Identifier: Apache-2.0
// Built where LibTorch has NCCL and its header is there.
#include "common/training/backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace alg {

c10::intrusive_ptr<c10d::Backend> make_nccl(const Meeting& meeting) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = meeting.timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(meeting.store, meeting.rank, meeting.world,
                                                       options);
}

}  // namespace alg
