// SPDX-License-Identifier: Apache-2.0
// One stream's files: lines.log (frames) and, once it is long, lines.idx (sparse index, only a
// hint).
//
// Loaded on first use; a torn end is cut off then. The lock is per stream and is held while
// appending, not while reading: readers take a snapshot of where the committed bytes end. Private
// to telemetry/.
#pragma once

#include "base/sync.h"
#include "sys/sys.h"
#include "telemetry/frame.h"
#include "telemetry/telemetry.h"

#include <functional>
#include <memory>
#include <vector>

namespace ty::telemetry {

class LogStream {
public:
    LogStream(sys::fs::path dir, std::string name);

    /// Without `first` the lines go behind what is held.
    /// `prepare` runs first, under the stream's lock, so that an append and a removal never
    /// interleave.
    std::uint64_t append(std::optional<std::uint64_t> first, std::span<const LogLine> lines,
                         Instant ingested, const std::function<void()>& prepare);
    /// Forget all lines and delete the files, after `prepare`.
    void clear(const std::function<void()>& prepare);

    std::vector<LogEvent> read(std::uint64_t from, LogStore::Direction direction, std::size_t limit,
                               const LogStore::Range& range);
    std::uint64_t scan(std::uint64_t from, std::size_t max_bytes,
                       const std::function<void(const LogBlock&)>& fn);
    std::uint64_t index_at(Instant start);
    /// Counters; id and created are left to the caller.
    StreamInfo info();
    std::uint64_t wait_beyond(std::uint64_t index, Deadline by, const std::stop_token& stop);

private:
    struct State {
        bool loaded = false;
        std::shared_ptr<const sys::Fd> data;  ///< null while the stream has no file
        sys::Fd index_file;                   ///< opened by the first writer of an entry
        std::uint64_t size = 0;
        std::uint64_t next = 0;
        std::optional<Instant> first_event, last_event, last_ingestion;
        std::vector<IndexEntry> index;  ///< entry 0 is the file's first frame
        std::size_t index_on_disk = 0;  ///< entries of `index` in lines.idx
    };
    /// Committed bytes to read, from a frame's start on.
    struct Cut {
        std::shared_ptr<const sys::Fd> data;
        std::uint64_t begin = 0, end = 0;
        std::uint64_t first = 0;  ///< line index at `begin`
        std::uint64_t next = 0;
    };

    template <typename Fn>
    auto with_loaded(Fn&& fn);
    void load(State& state) const;
    /// Index entries that the data file confirms; returns where to start checking frames.
    void load_index(State& state) const;
    void note_frame(State& state, const FrameHeader& header, std::uint64_t offset) const;
    void save_index(State& state) const;
    /// From the indexed frame at or before the line / before the first frame at the time.
    Cut cut_at(std::uint64_t index);
    Cut cut_before(Instant time);
    std::vector<LogEvent> read_forward(std::uint64_t from, std::size_t limit,
                                       std::optional<Instant> end);
    std::vector<LogEvent> read_backward(std::uint64_t from, std::size_t limit,
                                        std::optional<Instant> start);

    const sys::fs::path dir_;
    const std::string name_;
    Sync<State> state_;
};

}  // namespace ty::telemetry
