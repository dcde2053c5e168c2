// SPDX-License-Identifier: Apache-2.0
// Framed log lines waiting to be acknowledged: in memory first, in a spool file when the daemon is
// away, always in order and numbered without gaps. Not thread-safe; LogPump keeps it in a Sync.
#pragma once

#include "base/time.h"
#include "sys/fd.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace ty::agent {

class LogQueue {
public:
    struct Limits {
        std::size_t batch = 1u << 20;
        std::size_t memory = 8u << 20;    ///< beyond: full batches go to the spool
        std::size_t ceiling = 64u << 20;  ///< beyond, with a spool that cannot be written: full
    };
    struct Batch {
        std::uint64_t first = 0;  ///< index of its first line
        std::uint64_t lines = 0;
        std::size_t size = 0;
        std::string data;  ///< empty when spooled
        long long spool_at = -1;
        bool is_spooled() const { return spool_at >= 0; }
    };

    explicit LogQueue(sys::fs::path spool) : LogQueue(std::move(spool), Limits()) {}
    LogQueue(sys::fs::path spool, Limits limits) : limits_(limits), spool_path_(std::move(spool)) {}

    /// Append one line as "<epoch ms> <byte count>\n<bytes>\n".
    void add(Instant time, std::string_view line);
    bool empty() const { return batches_.empty(); }
    /// A whole batch waits, or several.
    bool has_full_batch() const {
        return batches_.size() > 1 || (!empty() && batches_.front().size >= limits_.batch);
    }
    /// Nothing more fits; the producer has to wait.
    bool is_full() const { return memory_ > limits_.ceiling; }
    /// Take the oldest batch, reading it back from the spool when it is there. Throws when that
    /// fails.
    Batch pop();
    /// A popped batch was acknowledged: its place in the spool is given back.
    void release(const Batch& batch);
    std::uint64_t next_index() const { return next_index_; }
    std::size_t spooled() const { return spooled_; }

private:
    void spool_back();

    Limits limits_;
    sys::fs::path spool_path_;
    sys::Fd spool_;
    long long spool_end_ = 0;
    std::size_t spooled_ = 0;  ///< batches in the spool, popped but unreleased ones included
    std::size_t memory_ = 0;
    std::uint64_t next_index_ = 0;
    bool spool_broken_ = false;
    std::deque<Batch> batches_;
};

}  // namespace ty::agent
