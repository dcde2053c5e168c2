// SPDX-License-Identifier: Apache-2.0
// A copy of many tensors taken by several threads in small pieces, into memory that is allocated
// once and used for every copy. Used by StateKeeper only.
//
// One round: start() on the training thread; work() on as many threads as there are; wait() on the
// training thread, which takes part in what is left instead of idling. Rounds do not overlap.
#pragma once

#include "common/files/tensors.h"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

namespace alg {

class StateCopy {
public:
    /// `live`: tensors of any device, whose values may change between rounds and whose shapes may
    /// not.
    explicit StateCopy(NamedTensors live);
    ~StateCopy();
    StateCopy(const StateCopy&) = delete;
    StateCopy& operator=(const StateCopy&) = delete;

    /// Allocates the memory and touches every page of it, so that copying never waits for pages.
    /// Takes seconds where memory is scarce. Any thread; the first one does it. Done by work()
    /// otherwise. Throws Failure: no memory, or stopped.
    void prepare(const std::stop_token& stop = {});
    void start();
    /// Copies pieces until none is left to begin.
    void work() noexcept;
    /// Helps, then blocks until everything is copied, or has failed.
    void wait() noexcept;

    /// What the finished round has copied, in order of `live`. Throws Failure when it failed.
    const NamedTensors& copies() const;
    std::size_t bytes() const { return bytes_; }

private:
    /// Bytes of a contiguous CPU tensor, or a whole tensor (bytes 0) that LibTorch copies.
    struct Piece {
        std::size_t tensor, offset, bytes;
    };
    void allocate(const std::stop_token& stop);

    const NamedTensors live_;
    std::vector<Piece> pieces_;
    std::size_t bytes_ = 0;
    std::vector<std::size_t> places_;  ///< of each tensor in memory_

    std::once_flag prepared_;
    std::byte* memory_ = nullptr;
    NamedTensors copies_;

    std::mutex mutex_;  ///< of problem_
    std::string problem_;
    std::atomic<std::size_t> next_, copied_;
};

}  // namespace alg
