// SPDX-License-Identifier: Apache-2.0
// How log lines lie in a stream's file: frames of up to 64 KiB or 1024 lines, each with a checksum.
//
// A frame is the unit of truth: it is there whole or not at all, so a torn write never shows half a
// line. The header alone says which lines and times are inside; readers skip frames without reading
// them.
#pragma once

#include "base/time.h"
#include "telemetry/telemetry.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::telemetry {

inline constexpr std::size_t kFrameHeaderSize = 48;
inline constexpr std::size_t kFrameTargetBytes = 64u << 10;
inline constexpr std::size_t kFrameTargetLines = 1024;
/// The longest line the store takes, and with it the largest payload a frame can have.
inline constexpr std::size_t kMaxLineBytes = 4u << 20;
inline constexpr std::size_t kMaxPayloadBytes = kMaxLineBytes + kFrameTargetBytes + (64u << 10);

struct FrameHeader {
    std::uint32_t payload_size = 0;
    std::uint32_t checksum = 0;
    std::uint32_t count = 0;  ///< lines, at least 1
    std::uint64_t first = 0;  ///< index of the first line
    Instant first_time, last_time, ingested;
    std::uint64_t end() const { return first + count; }
    std::uint64_t size() const { return kFrameHeaderSize + payload_size; }
};

/// One frame's lines, times already non-decreasing. Precondition: not empty.
void encode_frame(std::string& out, std::uint64_t first, Instant ingested,
                  std::span<const LogLine> lines, std::span<const Instant> times);

/// nullopt when the bytes cannot start a frame: too short, wrong mark, absurd sizes.
std::optional<FrameHeader> decode_header(std::string_view bytes);
/// True when header and payload are the ones written. `frame` is header.size() bytes.
bool is_intact(const FrameHeader& header, std::string_view frame);

/// Lines of a frame; `text` of the block points into `payload`, which must outlive it.
/// nullopt when the table disagrees with the payload; never reads outside it.
std::optional<LogBlock> decode_payload(const FrameHeader& header, std::string_view payload);

/// One entry of the sparse index: where the frame that starts with line `index` lies.
struct IndexEntry {
    std::uint64_t index = 0;
    std::uint64_t offset = 0;
    Instant time;
};
inline constexpr std::size_t kIndexEntrySize = 32;
void encode_index_entry(std::string& out, const IndexEntry& entry);
/// nullopt for a torn or damaged entry.
std::optional<IndexEntry> decode_index_entry(std::string_view bytes);

}  // namespace ty::telemetry
