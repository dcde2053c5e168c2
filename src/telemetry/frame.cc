// SPDX-License-Identifier: Apache-2.0
#include "telemetry/frame.h"

#include "base/hash.h"

#include <cstring>
#include <limits>

namespace ty::telemetry {
namespace {

constexpr std::uint32_t kFrameMark = 0x314c5954;  // "TYL1"
constexpr std::uint32_t kIndexMark = 0x31495954;  // "TYI1"
// Header layout: mark, payload size, checksum, count (u32 each), first index, times and arrival (64
// bits each).
constexpr std::size_t kChecksumAt = 8;

template <typename Word>
void put(std::string& out, Word value) {
    char bytes[sizeof(Word)];
    for (std::size_t i = 0; i < sizeof(Word); ++i) bytes[i] = char(value >> (8 * i) & 255);
    out.append(bytes, sizeof bytes);
}

template <typename Word>
Word get(std::string_view bytes, std::size_t at) {
    Word value = 0;
    for (std::size_t i = 0; i < sizeof(Word); ++i)
        value |= Word(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
}

Instant get_instant(std::string_view bytes, std::size_t at) {
    return Instant(milliseconds(static_cast<std::int64_t>(get<std::uint64_t>(bytes, at))));
}
std::uint64_t as_word(Instant instant) {
    return static_cast<std::uint64_t>(std::int64_t(instant.time_since_epoch().count()));
}

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(char(value | 0x80));
    out.push_back(char(value));
}

/// Reads one varint at `at` and moves on; nullopt at the end of the bytes or beyond 64 bits.
std::optional<std::uint64_t> get_varint(std::string_view bytes, std::size_t& at) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at >= bytes.size()) return std::nullopt;
        const auto byte = static_cast<unsigned char>(bytes[at++]);
        if (shift == 63 && byte > 1) return std::nullopt;
        value |= std::uint64_t(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    return std::nullopt;
}

std::uint32_t crc32c(std::string_view a, std::string_view b = {}) {
    Hasher hasher(HashKind::crc32c);
    hasher.update(a);
    hasher.update(b);
    std::uint32_t value = 0;
    for (const char c : hasher.finish()) value = value << 8 | static_cast<unsigned char>(c);
    return value;
}

std::uint32_t frame_checksum(std::string_view frame) {
    return crc32c(frame.substr(0, kChecksumAt), frame.substr(kChecksumAt + 4));
}

}  // namespace

void encode_frame(std::string& out, std::uint64_t first, Instant ingested,
                  std::span<const LogLine> lines, std::span<const Instant> times) {
    TY_ASSERT(!lines.empty() && lines.size() == times.size());
    const std::size_t start = out.size();
    put(out, kFrameMark);
    put(out, std::uint32_t(0));
    put(out, std::uint32_t(0));
    put(out, std::uint32_t(lines.size()));
    put(out, first);
    put(out, as_word(times.front()));
    put(out, as_word(times.back()));
    put(out, as_word(ingested));
    Instant previous = times.front();
    for (std::size_t i = 0; i < lines.size(); ++i) {
        put_varint(out, as_word(times[i]) - as_word(previous));
        put_varint(out, lines[i].text.size());
        previous = times[i];
    }
    for (const LogLine& line : lines) {
        out += line.text;
        out += '\n';
    }
    std::string fixed;
    put(fixed, std::uint32_t(out.size() - start - kFrameHeaderSize));
    out.replace(start + 4, 4, fixed);
    fixed.clear();
    put(fixed, frame_checksum(std::string_view(out).substr(start)));
    out.replace(start + kChecksumAt, 4, fixed);
}

std::optional<FrameHeader> decode_header(std::string_view bytes) {
    if (bytes.size() < kFrameHeaderSize || get<std::uint32_t>(bytes, 0) != kFrameMark)
        return std::nullopt;
    FrameHeader header;
    header.payload_size = get<std::uint32_t>(bytes, 4);
    header.checksum = get<std::uint32_t>(bytes, kChecksumAt);
    header.count = get<std::uint32_t>(bytes, 12);
    header.first = get<std::uint64_t>(bytes, 16);
    header.first_time = get_instant(bytes, 24);
    header.last_time = get_instant(bytes, 32);
    header.ingested = get_instant(bytes, 40);
    const bool sane = header.count > 0 && header.payload_size <= kMaxPayloadBytes &&
                      header.count <= header.payload_size / 3 &&
                      header.first <= std::numeric_limits<std::uint64_t>::max() - header.count &&
                      header.first_time <= header.last_time;
    return sane ? std::optional(header) : std::nullopt;
}

bool is_intact(const FrameHeader& header, std::string_view frame) {
    return frame.size() == header.size() && frame_checksum(frame) == header.checksum;
}

std::optional<LogBlock> decode_payload(const FrameHeader& header, std::string_view payload) {
    if (payload.size() != header.payload_size) return std::nullopt;
    LogBlock block;
    block.first = header.first;
    block.ingested = header.ingested;
    block.lines.reserve(header.count);
    std::size_t at = 0;
    std::uint64_t end = 0;
    std::uint64_t time = as_word(header.first_time);
    for (std::uint32_t i = 0; i < header.count; ++i) {
        const auto delta = get_varint(payload, at);
        const auto length = delta ? get_varint(payload, at) : std::nullopt;
        if (!length || *length > payload.size()) return std::nullopt;
        if (*delta > as_word(header.last_time) - time) return std::nullopt;
        time += *delta;
        block.lines.push_back({.time = Instant(milliseconds(static_cast<std::int64_t>(time))),
                               .offset = std::uint32_t(end),
                               .length = std::uint32_t(*length)});
        end += *length + 1;
        if (end > payload.size()) return std::nullopt;
    }
    if (at + end != payload.size()) return std::nullopt;
    block.text = payload.substr(at);
    return block;
}

void encode_index_entry(std::string& out, const IndexEntry& entry) {
    const std::size_t start = out.size();
    put(out, entry.index);
    put(out, entry.offset);
    put(out, as_word(entry.time));
    put(out, kIndexMark);
    put(out, crc32c(std::string_view(out).substr(start)));
}

std::optional<IndexEntry> decode_index_entry(std::string_view bytes) {
    if (bytes.size() != kIndexEntrySize || get<std::uint32_t>(bytes, 24) != kIndexMark ||
        get<std::uint32_t>(bytes, 28) != crc32c(bytes.substr(0, 28)))
        return std::nullopt;
    return IndexEntry{.index = get<std::uint64_t>(bytes, 0),
                      .offset = get<std::uint64_t>(bytes, 8),
                      .time = get_instant(bytes, 16)};
}

}  // namespace ty::telemetry
