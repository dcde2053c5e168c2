// SPDX-License-Identifier: Apache-2.0
// Message bodies read from a connection, whatever their framing. Private to http; used by the
// server for requests and by the client for responses.
#pragma once

#include "http/chunked.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/stream.h"

#include <functional>

namespace ty::http {

/// How long a read may take: each for itself, or all until one point.
struct Patience {
    milliseconds stall{0};  ///< 0: `by` counts
    Deadline by = Deadline::never();
    Deadline next() const { return stall.count() > 0 ? Deadline::in(stall) : by; }
};

class StreamBody final : public BodyReader {
public:
    StreamBody(Stream& stream, InputBuffer& buffer, Framing framing, Patience patience)
        : stream_(stream),
          buffer_(buffer),
          framing_(framing),
          patience_(patience),
          left_(framing.length) {}

    std::size_t read(std::span<std::byte> into) override;
    std::optional<std::uint64_t> length() const override;

    /// Called once before the first byte is awaited: "100 Continue" goes out here.
    void on_first_read(std::function<void()> fn) { on_first_read_ = std::move(fn); }
    /// The peer still holds its body back, waiting for "100 Continue".
    bool is_held_back() const { return static_cast<bool>(on_first_read_); }
    /// The body was read to its end, so the next message may follow.
    bool is_finished() const;
    /// A read threw: the connection's position is unknown.
    bool has_failed() const { return failed_; }
    /// The rest will come without being asked for, and is not known to exceed `limit` bytes.
    bool can_drain(std::uint64_t limit) const;
    /// Read and forget the rest. False when it turns out to exceed `limit`.
    bool drain(std::uint64_t limit);

private:
    std::size_t read_part(std::span<std::byte> into);
    std::size_t read_length(std::span<std::byte> into);
    std::size_t read_chunked(std::span<std::byte> into);
    std::size_t take_buffered(std::span<std::byte> into);

    Stream& stream_;
    InputBuffer& buffer_;
    Framing framing_;
    Patience patience_;
    std::uint64_t left_;
    ChunkDecoder chunks_;
    bool closed_ = false;
    bool failed_ = false;
    std::function<void()> on_first_read_;
};

}  // namespace ty::http
