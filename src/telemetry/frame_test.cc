// SPDX-License-Identifier: Apache-2.0
#include "telemetry/frame.h"

#include "telemetry/test_support.h"

#include <doctest/doctest.h>

namespace ty::telemetry {
namespace {

std::string frame_of(const std::vector<LogLine>& lines, std::uint64_t first = 7) {
    std::vector<Instant> times;
    for (const LogLine& line : lines) times.push_back(line.time);
    std::string out;
    encode_frame(out, first, Instant(milliseconds(99)), lines, times);
    return out;
}

TEST_CASE("a frame gives back its lines, times and place") {
    const std::vector<LogLine> lines = {{Instant(milliseconds(-5)), "first"},
                                        {Instant(milliseconds(300)), ""},
                                        {Instant(milliseconds(300)), "two\nrows \xff"}};
    const std::string frame = frame_of(lines);
    const auto header = decode_header(frame);
    REQUIRE(header);
    CHECK(header->size() == frame.size());
    CHECK(header->first_time == Instant(milliseconds(-5)));
    CHECK(header->last_time == Instant(milliseconds(300)));
    CHECK(is_intact(*header, frame));
    const auto block = decode_payload(*header, std::string_view(frame).substr(kFrameHeaderSize));
    REQUIRE(block);
    CHECK(block->first == 7);
    REQUIRE(block->lines.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(block->line(i) == lines[i].text);
        CHECK(block->lines[i].time == lines[i].time);
    }
}

TEST_CASE("any changed byte of a frame is noticed") {
    const std::string frame = frame_of(numbered_lines(0, 20));
    for (std::size_t at = 0; at < frame.size(); ++at) {
        std::string broken = frame;
        broken[at] = char(broken[at] ^ 0x10);
        const auto header = decode_header(broken);
        CHECK((!header || !is_intact(*header, broken)));
    }
}

TEST_CASE("a payload whose table lies is refused without reading past it") {
    const std::string frame = frame_of(numbered_lines(0, 3));
    auto header = *decode_header(frame);
    const std::string payload = frame.substr(kFrameHeaderSize);
    header.count = 4;
    CHECK_FALSE(decode_payload(header, payload));
    header.count = 2;
    CHECK_FALSE(decode_payload(header, payload));
    header.count = 3;
    header.last_time = header.first_time;
    CHECK_FALSE(decode_payload(header, payload));
}

TEST_CASE("index entries carry their own checksum") {
    std::string bytes;
    encode_index_entry(bytes, {.index = 12, .offset = 1u << 20, .time = Instant(milliseconds(5))});
    REQUIRE(bytes.size() == kIndexEntrySize);
    CHECK(decode_index_entry(bytes)->offset == 1u << 20);
    for (char& byte : bytes) {
        byte = char(byte ^ 1);
        CHECK_FALSE(decode_index_entry(bytes));
        byte = char(byte ^ 1);
    }
}

}  // namespace
}  // namespace ty::telemetry
