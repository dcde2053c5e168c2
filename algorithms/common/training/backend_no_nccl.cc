// SPDX-License-Identifier: Apache-2.0
// In place of backend_nccl.cc where LibTorch was built without NCCL.
#include "common/base/error.h"
#include "common/training/backend.h"

namespace alg {

c10::intrusive_ptr<c10d::Backend> make_nccl(const Meeting&) {
    fail(
        "training on several GPUs needs NCCL, which this LibTorch was built without; build with a "
        "CUDA build of LibTorch and NCCL's header, or train with one process");
}

}  // namespace alg
