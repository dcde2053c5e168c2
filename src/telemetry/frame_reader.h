// SPDX-License-Identifier: Apache-2.0
// Walks the frames of a file through one buffer. Private to telemetry/; one thread.
#pragma once

#include "sys/sys.h"
#include "telemetry/frame.h"

#include <optional>
#include <string>

namespace ty::telemetry {

class FrameReader {
public:
    /// Frames in [begin, end) of the file; both must outlive the reader.
    FrameReader(const sys::Fd& file, const sys::fs::path& path, std::uint64_t begin,
                std::uint64_t end)
        : file_(file), path_(path), at_(begin), end_(end) {}

    /// Header of the frame at offset(); nullopt at the end, or where no whole frame starts.
    std::optional<FrameHeader> peek();
    /// Payload of the frame just peeked; nullopt when its checksum fails.
    std::optional<std::string_view> payload(const FrameHeader& header);
    void skip(const FrameHeader& header) { at_ += header.size(); }
    std::uint64_t offset() const { return at_; }
    bool at_end() const { return at_ >= end_; }

private:
    std::string_view view(std::size_t size);

    const sys::Fd& file_;
    const sys::fs::path& path_;
    std::uint64_t at_;
    std::uint64_t end_;
    std::string buffer_;
    std::uint64_t buffer_at_ = 0;
};

}  // namespace ty::telemetry
