// SPDX-License-Identifier: Apache-2.0
// What a connection reads from and writes to: a plain socket, or TLS over one. Private to http.
#pragma once

#include "base/time.h"
#include "sys/sys.h"

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace ty::http {

/// Throws what sys::Socket throws.
class Stream {
public:
    virtual ~Stream() = default;
    /// 0 at the end of the stream.
    virtual std::size_t read(std::span<std::byte> into, Deadline by) = 0;
    virtual void write(std::span<const std::byte> first, std::span<const std::byte> second,
                       Deadline by) = 0;
    /// `head`, then a file range; `stall` bounds the wait for each piece.
    virtual void send_file(std::span<const std::byte> head, int file, std::uint64_t offset,
                           std::uint64_t length, milliseconds stall) = 0;
    /// Tell the peer that nothing more comes.
    virtual void finish() = 0;
};

/// `head`, then `body` of any size; `stall` bounds the wait for each piece, not for the whole: a
/// slow reader is served, a stalled one is not.
void write_in_pieces(Stream& stream, std::span<const std::byte> head,
                     std::span<const std::byte> body, milliseconds stall);

class PlainStream final : public Stream {
public:
    explicit PlainStream(sys::Socket& socket, std::stop_token stop = {})
        : socket_(socket), stop_(std::move(stop)) {}
    std::size_t read(std::span<std::byte> into, Deadline by) override;
    void write(std::span<const std::byte> first, std::span<const std::byte> second,
               Deadline by) override;
    void send_file(std::span<const std::byte> head, int file, std::uint64_t offset,
                   std::uint64_t length, milliseconds stall) override;
    void finish() override { socket_.shutdown_write(); }

private:
    sys::Socket& socket_;
    std::stop_token stop_;
};

/// Bytes received but not yet used. One per connection, alive across requests: what a client sends
/// ahead (pipelining) stays here.
class InputBuffer {
public:
    explicit InputBuffer(std::size_t capacity = 16384) : bytes_(capacity, '\0') {}
    std::string_view view() const { return std::string_view(bytes_).substr(begin_, end_ - begin_); }
    bool empty() const { return begin_ == end_; }
    void consume(std::size_t count);
    /// One read from the stream, growing up to `limit` bytes held. False at the end of the stream
    /// or when the limit is reached.
    bool fill(Stream& stream, Deadline by, std::size_t limit);

private:
    std::string bytes_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace ty::http
