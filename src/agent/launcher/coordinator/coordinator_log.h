// SPDX-License-Identifier: Apache-2.0
// What a coordinator must not forget: snapshots of the rendezvous, newest last.
//
// Two keepers. The log on disk survives the machine; the memory slots belong to the hosting agent
// (two memfds, written in turn) and survive the coordinator, also when the disk is full. Both hold
// checksummed records, so that a kill in the middle of a write leaves the record before it.
#pragma once

#include "base/sync.h"
#include "base/time.h"
#include "sys/sys.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace ty::agent {

struct LogRecord {
    std::int64_t sequence = 0;
    std::string snapshot;
};
std::string encode_record(std::int64_t sequence, std::string_view snapshot);
/// The last whole record of `content`; what follows it (a torn tail) or cannot be read is ignored.
std::optional<LogRecord> newest_record(std::string_view content);

class CoordinatorLog {
public:
    /// `rendezvous-<hash of run id and endpoint>.log`.
    static sys::fs::path path_for(const sys::fs::path& folder, std::string_view run_id,
                                  std::string_view endpoint);
    /// The newest record of an unfinished job whose coordinator was alive less than `freshness` ago
    /// (a live one touches its log).
    static std::optional<LogRecord> load(const sys::fs::path& path, const Clock& clock,
                                         milliseconds freshness);
    static void remove(const sys::fs::path& path);
    /// False for a folder that somebody else owns or may write to: its content is not to be
    /// believed.
    static bool is_private(const sys::fs::path& folder);

    /// An empty path keeps nothing.
    explicit CoordinatorLog(sys::fs::path path) : path_(std::move(path)) {}
    /// On disk when it returns. Makes folder (0700) and file (0600); throws exhausted, denied….
    void append(std::int64_t sequence, std::string_view snapshot);
    void touch();
    void finish() { remove(path_); }

private:
    void open();
    sys::fs::path path_;
    sys::Fd file_;
    std::uint64_t size_ = 0;
    bool appended_ = false;  ///< the file ends in a whole record of ours
};

/// A CoordinatorLog with a thread of its own: a disk that takes a second for one write must not
/// keep beats unanswered, or every node of the job would be fenced. Only the newest snapshot is
/// written.
class LogWriter {
public:
    explicit LogWriter(sys::fs::path path);
    void submit(std::int64_t sequence, std::string snapshot);
    /// The newest sequence that is on disk, or could not be written (said once, then given up on).
    std::int64_t done() const { return done_; }
    int fd() const { return wake_.fd(); }  ///< readable after done() has changed
    void drain() { wake_.drain(); }
    void touch();
    /// The job is over: stop writing, remove the file.
    void finish();

private:
    struct Job {
        std::int64_t sequence = 0;
        std::string snapshot;
        bool waiting = false, touch = false;
    };
    void run(const std::stop_token& stop);

    const bool keeps_;
    std::atomic<std::int64_t> done_{0};
    sys::WakeFd wake_, work_;
    Sync<Job> job_;
    CoordinatorLog log_;  ///< the thread's
    std::jthread thread_;
};

/// Two descriptors of anonymous memory, written alternately.
class MemorySlots {
public:
    MemorySlots() = default;
    MemorySlots(sys::Fd first, sys::Fd second) : slots_{std::move(first), std::move(second)} {}
    static MemorySlots make();
    int fd(std::size_t slot) const { return slots_[slot].get(); }
    void store(std::int64_t sequence, std::string_view snapshot);
    std::optional<LogRecord> load() const;

private:
    sys::Fd slots_[2];
};

}  // namespace ty::agent
