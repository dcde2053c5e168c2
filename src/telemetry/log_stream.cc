// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log_stream.h"

#include "base/log.h"
#include "base/result.h"
#include "telemetry/disk.h"
#include "telemetry/frame_reader.h"

#include <algorithm>

namespace ty::telemetry {
namespace {

/// What one answer holds at most; an event counts its text and a fixed share, as on AWS.
constexpr std::size_t kReadBytes = 1u << 20;
constexpr std::size_t kEventShare = 26;
constexpr std::string_view kDataFile = "lines.log";
constexpr std::string_view kIndexFile = "lines.idx";

std::size_t cost(std::string_view text) {
    return text.size() + kEventShare;
}

LogEvent event_of(const LogBlock& block, std::size_t i) {
    return {.index = block.first + i,
            .time = block.lines[i].time,
            .ingested = block.ingested,
            .text = std::string(block.line(i))};
}

[[noreturn]] void throw_damaged(const sys::fs::path& dir, std::uint64_t offset) {
    throw_error(
        Code::corrupt, "DamagedLog",
        "{}: the frame at byte {} fails its checksum; restore the file from a backup or delete "
        "the stream",
        (dir / kDataFile).string(), offset);
}

/// The frame's lines; throws corrupt when it is damaged.
LogBlock block_of(FrameReader& reader, const FrameHeader& header, const sys::fs::path& dir) {
    const auto payload = reader.payload(header);
    auto block = payload ? decode_payload(header, *payload) : std::nullopt;
    if (!block) throw_damaged(dir, reader.offset());
    return std::move(*block);
}

/// Frames for the lines, each within the targets (one long line alone may exceed them).
std::vector<std::pair<FrameHeader, std::uint64_t>> encode_batch(std::string& out,
                                                                std::uint64_t first,
                                                                Instant ingested,
                                                                std::span<const LogLine> lines,
                                                                std::span<const Instant> times) {
    std::vector<std::pair<FrameHeader, std::uint64_t>> frames;
    while (!lines.empty()) {
        std::size_t count = 0;
        for (std::size_t bytes = 0; count < lines.size() && count < kFrameTargetLines; ++count) {
            bytes += lines[count].text.size() + 8;
            if (count > 0 && bytes > kFrameTargetBytes) break;
        }
        const std::size_t at = out.size();
        encode_frame(out, first, ingested, lines.first(count), times.first(count));
        const auto header = decode_header(std::string_view(out).substr(at));
        TY_ASSERT(header.has_value());
        frames.emplace_back(*header, at);
        first += count;
        lines = lines.subspan(count);
        times = times.subspan(count);
    }
    return frames;
}

}  // namespace

LogStream::LogStream(sys::fs::path dir, std::string name)
    : dir_(std::move(dir)), name_(std::move(name)) {}

template <typename Fn>
auto LogStream::with_loaded(Fn&& fn) {
    return state_.with([&](State& state) {
        if (!state.loaded) load(state);
        return fn(state);
    });
}

// ---- opening
// ---------------------------------------------------------------------------------------

void LogStream::load(State& state) const {
    state = State();
    const sys::fs::path path = dir_ / kDataFile;
    sys::Fd file = open_data_if_exists(path);
    if (!file.is_open()) {
        state.loaded = true;
        return;
    }
    const std::uint64_t size = file_size(file, path);
    state.data = std::make_shared<const sys::Fd>(std::move(file));
    state.size = size;
    load_index(state);
    const std::uint64_t start = state.index.empty() ? 0 : state.index.back().offset;
    std::uint64_t expected = state.index.empty() ? 0 : state.index.back().index;
    FrameReader reader(*state.data, path, start, size);
    while (const auto header = reader.peek()) {
        const auto payload = reader.payload(*header);
        if (header->first != expected || !payload || !decode_payload(*header, *payload)) break;
        note_frame(state, *header, reader.offset());
        expected = header->end();
        reader.skip(*header);
    }
    if (!reader.at_end()) {
        log::warning("cut off the torn end of a log stream",
                     {{"stream", name_}, {"bytes", size - reader.offset()}, {"lines", expected}});
        truncate_to(*state.data, reader.offset(), path);
    }
    state.size = reader.offset();
    state.next = expected;
    state.loaded = true;
}

void LogStream::load_index(State& state) const {
    if (state.size <= kFrameTargetBytes) return;
    const sys::fs::path path = dir_ / kIndexFile;
    const sys::fs::path data_path = dir_ / kDataFile;
    const sys::Fd file = open_data_if_exists(path);
    if (!file.is_open()) return;
    const std::uint64_t bytes = file_size(file, path) / kIndexEntrySize * kIndexEntrySize;
    // More entries than the data could have frames is not ours.
    if (bytes / kIndexEntrySize > state.size / kFrameHeaderSize) return;
    std::string text(std::size_t(bytes), '\0');
    read_at(file, 0, std::as_writable_bytes(std::span(text)), path);
    for (std::size_t at = 0; at < text.size(); at += kIndexEntrySize) {
        const auto entry = decode_index_entry(std::string_view(text).substr(at, kIndexEntrySize));
        const bool rises = entry && entry->offset < state.size &&
                           (state.index.empty() ? entry->offset == 0 && entry->index == 0
                                                : entry->offset > state.index.back().offset &&
                                                      entry->index > state.index.back().index);
        if (!rises) break;
        state.index.push_back(*entry);
    }
    // After a power cut the index may be ahead of the data: step back to what the data confirms.
    for (; !state.index.empty(); state.index.pop_back()) {
        FrameReader reader(*state.data, data_path, state.index.back().offset, state.size);
        const auto header = reader.peek();
        if (header && header->first == state.index.back().index && reader.payload(*header)) break;
    }
    state.index_on_disk = state.index.size();
    if (state.index.empty()) return;
    FrameReader reader(*state.data, data_path, 0, state.size);
    if (const auto header = reader.peek()) state.first_event = header->first_time;
}

/// Counters and index move on over one committed frame.
void LogStream::note_frame(State& state, const FrameHeader& header, std::uint64_t offset) const {
    const bool is_indexed = !state.index.empty() && state.index.back().offset == offset;
    if (!is_indexed &&
        (state.index.empty() || offset - state.index.back().offset >= kFrameTargetBytes ||
         header.first - state.index.back().index >= kFrameTargetLines))
        state.index.push_back({.index = header.first, .offset = offset, .time = header.first_time});
    if (!state.first_event) state.first_event = header.first_time;
    state.last_event = header.last_time;
    state.last_ingestion = header.ingested;
    state.next = header.end();
    state.size = offset + header.size();
}

/// A hint only: where it cannot be written the next opening reads more of the data.
void LogStream::save_index(State& state) const {
    if (state.index.size() < 2 || state.index_on_disk == state.index.size()) return;
    const sys::fs::path path = dir_ / kIndexFile;
    std::string text;
    for (std::size_t i = state.index_on_disk; i < state.index.size(); ++i)
        encode_index_entry(text, state.index[i]);
    const auto written = capture([&] {
        if (!state.index_file.is_open()) state.index_file = open_data(path);
        write_at(state.index_file, state.index_on_disk * kIndexEntrySize, text, path.string());
    });
    if (written.ok()) state.index_on_disk = state.index.size();
}

// ---- writing
// ---------------------------------------------------------------------------------------

std::uint64_t LogStream::append(std::optional<std::uint64_t> given_first,
                                std::span<const LogLine> lines, Instant ingested,
                                const std::function<void()>& prepare) {
    const std::uint64_t next = with_loaded([&](State& state) {
        prepare();
        const std::uint64_t first = given_first.value_or(state.next);
        if (first > state.next)
            throw_error(Code::conflict, "SequenceGap",
                        "log stream {} holds {} lines, the batch starts at line {}; send the lines "
                        "from {} on",
                        name_, state.next, first, state.next);
        const std::uint64_t known = std::min<std::uint64_t>(state.next - first, lines.size());
        lines = lines.subspan(std::size_t(known));
        if (lines.empty()) return state.next;
        std::vector<Instant> times;
        times.reserve(lines.size());
        std::size_t bytes = 0;
        for (const LogLine& line : lines) {
            if (line.text.size() > kMaxLineBytes)
                throw_error(Code::invalid, "LineTooLong",
                            "log stream {}: a line of {} bytes is over the limit of {}; split it",
                            name_, line.text.size(), kMaxLineBytes);
            const std::optional<Instant> floor =
                times.empty() ? state.last_event : std::optional(times.back());
            times.push_back(floor ? std::max(*floor, line.time) : line.time);
            bytes += line.text.size() + 8;
        }
        std::string out;
        out.reserve(bytes + (bytes / kFrameTargetBytes + 2) * kFrameHeaderSize);
        const auto frames = encode_batch(out, state.next, ingested, lines, times);
        if (!state.data) {
            make_dirs(dir_);
            state.data = std::make_shared<const sys::Fd>(open_data(dir_ / kDataFile));
        }
        const std::uint64_t start = state.size;
        write_at(*state.data, start, out, "log stream " + name_);
        for (const auto& [header, at] : frames) note_frame(state, header, start + at);
        save_index(state);
        return state.next;
    });
    state_.notify();
    return next;
}

void LogStream::clear(const std::function<void()>& prepare) {
    state_.with([&](State& state) {
        prepare();
        state = State();
        state.loaded = true;
        std::error_code failed;
        sys::fs::remove_all(dir_, failed);
        if (failed) throw errno_error(failed.value(), fmt::format("delete {}", dir_.string()));
    });
    state_.notify();
}

// ---- reading
// ---------------------------------------------------------------------------------------

LogStream::Cut LogStream::cut_at(std::uint64_t index) {
    return with_loaded([&](State& state) {
        Cut cut{.data = state.data, .begin = 0, .end = state.size, .first = 0, .next = state.next};
        const auto after = std::ranges::upper_bound(state.index, index, {}, &IndexEntry::index);
        if (after == state.index.begin()) return cut;
        cut.begin = std::prev(after)->offset;
        cut.first = std::prev(after)->index;
        return cut;
    });
}

LogStream::Cut LogStream::cut_before(Instant time) {
    return with_loaded([&](State& state) {
        Cut cut{.data = state.data, .begin = 0, .end = state.size, .first = 0, .next = state.next};
        const auto after = std::ranges::lower_bound(state.index, time, {}, &IndexEntry::time);
        if (after == state.index.begin()) return cut;
        cut.begin = std::prev(after)->offset;
        cut.first = std::prev(after)->index;
        return cut;
    });
}

std::uint64_t LogStream::scan(std::uint64_t from, std::size_t max_bytes,
                              const std::function<void(const LogBlock&)>& fn) {
    const Cut cut = cut_at(from);
    if (from >= cut.next) return from;
    const sys::fs::path path = dir_ / kDataFile;
    FrameReader reader(*cut.data, path, cut.begin, cut.end);
    std::size_t bytes = 0;
    while (bytes < max_bytes && !reader.at_end()) {
        const auto header = reader.peek();
        if (!header) throw_damaged(dir_, reader.offset());
        if (header->end() > from) {
            fn(block_of(reader, *header, dir_));
            bytes += header->payload_size;
            from = header->end();
        }
        reader.skip(*header);
    }
    return from;
}

std::uint64_t LogStream::index_at(Instant start) {
    const Cut cut = cut_before(start);
    const sys::fs::path path = dir_ / kDataFile;
    if (!cut.data) return 0;
    FrameReader reader(*cut.data, path, cut.begin, cut.end);
    while (!reader.at_end()) {
        const auto header = reader.peek();
        if (!header) throw_damaged(dir_, reader.offset());
        if (header->last_time >= start) {
            const LogBlock block = block_of(reader, *header, dir_);
            const auto found =
                std::ranges::lower_bound(block.lines, start, {}, &LogBlock::Line::time);
            return block.first + std::uint64_t(found - block.lines.begin());
        }
        reader.skip(*header);
    }
    return cut.next;
}

std::vector<LogEvent> LogStream::read(std::uint64_t from, LogStore::Direction direction,
                                      std::size_t limit, const LogStore::Range& range) {
    if (limit == 0) return {};
    switch (direction) {
        case LogStore::Direction::forward:
            if (range.start) from = std::max(from, index_at(*range.start));
            return read_forward(from, limit, range.end);
        case LogStore::Direction::backward:
            if (range.end) from = std::min(from, index_at(*range.end));
            return read_backward(from, limit, range.start);
    }
    return {};
}

std::vector<LogEvent> LogStream::read_forward(std::uint64_t from, std::size_t limit,
                                              std::optional<Instant> end) {
    std::vector<LogEvent> events;
    std::size_t bytes = 0;
    bool full = false;
    while (!full) {
        const std::uint64_t next = scan(from, kFrameTargetBytes, [&](const LogBlock& block) {
            for (std::size_t i = std::size_t(from > block.first ? from - block.first : 0);
                 i < block.lines.size() && !full; ++i) {
                const bool is_over = end && block.lines[i].time >= *end;
                bytes += cost(block.line(i));
                full = is_over || events.size() >= limit || (!events.empty() && bytes > kReadBytes);
                if (!full) events.push_back(event_of(block, i));
            }
        });
        if (next == from) break;
        from = next;
    }
    return events;
}

/// Block by block from the end, each read forward; the answer is put in order at the end.
std::vector<LogEvent> LogStream::read_backward(std::uint64_t from, std::size_t limit,
                                               std::optional<Instant> start) {
    std::vector<LogEvent> events;  // newest first until the end
    std::size_t bytes = 0;
    bool full = false;
    const sys::fs::path path = dir_ / kDataFile;
    for (std::uint64_t before = std::min(from, info().next_index); before > 0 && !full;) {
        const Cut cut = cut_at(before - 1);
        if (!cut.data) break;
        std::vector<LogEvent> part;
        FrameReader reader(*cut.data, path, cut.begin, cut.end);
        while (const auto header = reader.peek()) {
            if (header->first >= before) break;
            const LogBlock block = block_of(reader, *header, dir_);
            for (std::size_t i = 0; i < block.lines.size() && block.first + i < before; ++i)
                part.push_back(event_of(block, i));
            reader.skip(*header);
        }
        if (part.empty()) throw_damaged(dir_, reader.offset());
        for (auto event = part.rbegin(); event != part.rend() && !full; ++event) {
            bytes += cost(event->text);
            full = (start && event->time < *start) || events.size() >= limit ||
                   (!events.empty() && bytes > kReadBytes);
            if (!full) events.push_back(std::move(*event));
        }
        before = cut.first;
    }
    std::ranges::reverse(events);
    return events;
}

StreamInfo LogStream::info() {
    return with_loaded([](State& state) {
        StreamInfo info;
        info.next_index = state.next;
        info.bytes = state.size;
        info.first_event = state.first_event;
        info.last_event = state.last_event;
        info.last_ingestion = state.last_ingestion;
        return info;
    });
}

std::uint64_t LogStream::wait_beyond(std::uint64_t index, Deadline by,
                                     const std::stop_token& stop) {
    with_loaded([](State&) {});
    return state_.wait(
        by, stop, [index](const State& state) { return state.next > index; },
        [](const State& state) { return state.next; });
}

}  // namespace ty::telemetry
