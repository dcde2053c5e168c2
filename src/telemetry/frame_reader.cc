// SPDX-License-Identifier: Apache-2.0
#include "telemetry/frame_reader.h"

#include "telemetry/disk.h"

#include <algorithm>

namespace ty::telemetry {

/// `size` bytes at offset(); shorter only at the end. Valid until the next call.
std::string_view FrameReader::view(std::size_t size) {
    constexpr std::size_t kChunk = 128u << 10;
    size = std::size_t(std::min<std::uint64_t>(size, end_ - at_));
    const bool held = at_ >= buffer_at_ && at_ + size <= buffer_at_ + buffer_.size();
    if (!held) {
        buffer_at_ = at_;
        buffer_.resize(std::size_t(std::min<std::uint64_t>(std::max(size, kChunk), end_ - at_)));
        read_at(file_, at_, std::as_writable_bytes(std::span(buffer_)), path_);
    }
    return std::string_view(buffer_).substr(std::size_t(at_ - buffer_at_), size);
}

std::optional<FrameHeader> FrameReader::peek() {
    if (at_end()) return std::nullopt;
    const auto header = decode_header(view(kFrameHeaderSize));
    if (!header || header->size() > end_ - at_) return std::nullopt;
    return header;
}

std::optional<std::string_view> FrameReader::payload(const FrameHeader& header) {
    const std::string_view frame = view(std::size_t(header.size()));
    if (!is_intact(header, frame)) return std::nullopt;
    return frame.substr(kFrameHeaderSize);
}

}  // namespace ty::telemetry
