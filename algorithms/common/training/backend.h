// SPDX-License-Identifier: Apache-2.0
// LibTorch's implementations of a process group. Private to this folder.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace alg {

struct Meeting {
    c10::intrusive_ptr<c10d::Store> store;
    int rank = 0, world = 1;
    std::chrono::milliseconds timeout{0};
};

/// Connects to all others from `address`.
c10::intrusive_ptr<c10d::Backend> make_gloo(const Meeting& meeting, const std::string& address);
/// Throws Failure where LibTorch was built without it.
c10::intrusive_ptr<c10d::Backend> make_nccl(const Meeting& meeting);

}  // namespace alg
