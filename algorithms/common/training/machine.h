// SPDX-License-Identifier: Apache-2.0
// The machine a program finds itself on: which device, how many threads, and whether its matrix
// products are as fast as they should be.
#pragma once

#include "common/base/contract.h"

#include <torch/types.h>

namespace alg {

struct Machine {
    torch::Device device = torch::kCPU;
    int threads = 1;           ///< of one operation, in this process
    double gflops = 0;         ///< of one float32 matrix product on all threads; 0: not measured
    std::string name = "CPU";  ///< for people
    /// "device CPU, 2 threads, 121 GFLOP/s in float32": the line prepare_machine() prints.
    std::string text() const;
};

/// Below this a thread is not doing what any processor of the last ten years can (AVX2: 30 and
/// more): a reference BLAS, an emulated processor, or one that is shared with others.
constexpr double kSlowGflopsPerThread = 10;

/// Threads of one process: OMP_NUM_THREADS, else this process's share of the processors it may use
/// (affinity and the container's quota, divided by LOCAL_WORLD_SIZE), at least one.
int threads_for(const Place& place);

/// Chooses the device ("auto": CUDA when LibTorch has it and there is one, else the CPU; "cpu";
/// "cuda"), sets threads (and one between operations), times one matrix product (less than 0.1 s),
/// and on local rank 0 prints a line about it and a warning with the remedy when it is slow. Call
/// once, before the first operation. Throws Failure when the wanted device is not there.
Machine prepare_machine(const Place& place, const std::string& wanted = "auto");

}  // namespace alg
