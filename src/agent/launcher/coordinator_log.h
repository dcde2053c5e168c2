// SPDX-License-Identifier: Apache-2.0
// What a coordinator must not forget: snapshots of the rendezvous, newest last.
//
// Two keepers. The log on disk survives the machine; the memory slots belong to the hosting agent
// (two memfds, written in turn) and survive the coordinator, also when the disk is full. Both hold
// checksummed records, so that a kill in the middle of a write leaves the record before it.
#pragma once

#include "base/time.h"
#include "sys/fd.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
