// SPDX-License-Identifier: Apache-2.0
// Plain sockets as streams, and the input buffer of a connection.
#include "http/stream.h"

#include <algorithm>
#include <cstring>

namespace ty::http {

namespace {

/// What is sent under one deadline.
constexpr std::size_t kPiece = 1u << 20;

}  // namespace

void write_in_pieces(Stream& stream, std::span<const std::byte> head,
                     std::span<const std::byte> body, milliseconds stall) {
    do {
        const auto piece = body.first(std::min(body.size(), kPiece));
        stream.write(head, piece, Deadline::in(stall));
        head = {};
        body = body.subspan(piece.size());
    } while (!body.empty());
}

std::size_t PlainStream::read(std::span<std::byte> into, Deadline by) {
    return socket_.read(into, by, stop_);
}

void PlainStream::write(std::span<const std::byte> first, std::span<const std::byte> second,
                        Deadline by) {
    socket_.write_parts(first, second, by, stop_);
}

void PlainStream::send_file(std::span<const std::byte> head, int file, std::uint64_t offset,
                            std::uint64_t length, milliseconds stall) {
    if (length == 0) return socket_.write(head, Deadline::in(stall), stop_);
    socket_.write_more(head, Deadline::in(stall), stop_);
    while (length > 0) {
        const std::uint64_t piece = std::min<std::uint64_t>(length, kPiece);
        socket_.send_file(file, offset, piece, Deadline::in(stall), stop_);
        offset += piece;
        length -= piece;
    }
}

void InputBuffer::consume(std::size_t count) {
    begin_ += count;
    if (begin_ == end_) begin_ = end_ = 0;
}

bool InputBuffer::fill(Stream& stream, Deadline by, std::size_t limit) {
    const std::size_t held = end_ - begin_;
    if (held >= limit) return false;
    if (end_ == bytes_.size()) {
        if (begin_ > 0) {
            std::memmove(bytes_.data(), bytes_.data() + begin_, held);
            begin_ = 0;
            end_ = held;
        } else {
            bytes_.resize(std::min(std::max(limit, bytes_.size() + 1), bytes_.size() * 2));
        }
    }
    const std::size_t room = std::min(bytes_.size() - end_, limit - held);
    const std::size_t got =
        stream.read(std::as_writable_bytes(std::span(bytes_.data() + end_, room)), by);
    end_ += got;
    return got > 0;
}

}  // namespace ty::http
