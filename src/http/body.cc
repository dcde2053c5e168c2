// SPDX-License-Identifier: Apache-2.0
// Length, chunked and close-delimited bodies. Large reads bypass the connection's buffer.
#include "http/body.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>

namespace ty::http {

namespace {

/// Below this a read goes through the buffer, so that tiny reads do not become tiny system calls.
constexpr std::size_t kDirectRead = 4096;

[[noreturn]] void peer_vanished() {
    throw_error(Code::unavailable, "IncompleteBody",
                "the peer went away before the end of the body");
}

}  // namespace

std::string BodyReader::read_all(Bytes limit) {
    const auto refuse = [limit] {
        throw_error(Code::exhausted, "EntityTooLarge", "the body is larger than {}",
                    to_string(limit));
    };
    const std::uint64_t known = length().value_or(0);
    if (known > limit.count()) refuse();
    // The announced length is only a claim: no more than 1 MiB is reserved on its word.
    std::string all;
    std::size_t filled = 0;
    while (true) {
        if (filled == all.size()) {
            const std::uint64_t wanted = filled == 0 ? std::min<std::uint64_t>(known, 1u << 20) + 1
                                                     : std::uint64_t{all.size()} * 2;
            all.resize(std::max<std::size_t>(static_cast<std::size_t>(wanted), 4096));
        }
        const std::size_t got = read(std::as_writable_bytes(std::span(all).subspan(filled)));
        if (got == 0) break;
        filled += got;
        if (filled > limit.count()) refuse();
    }
    all.resize(filled);
    return all;
}

std::size_t StreamBody::read(std::span<std::byte> into) {
    if (into.empty() || is_finished()) return 0;
    if (failed_) peer_vanished();
    try {
        if (on_first_read_) std::exchange(on_first_read_, {})();
        return read_part(into);
    } catch (...) {
        failed_ = true;
        throw;
    }
}

std::size_t StreamBody::read_part(std::span<std::byte> into) {
    switch (framing_.kind) {
        case Framing::Kind::none:
            return 0;
        case Framing::Kind::length:
            return read_length(into);
        case Framing::Kind::chunked:
            return read_chunked(into);
        case Framing::Kind::until_close:
            break;
    }
    if (!buffer_.empty()) return take_buffered(into);
    const std::size_t got = stream_.read(into, patience_.next());
    closed_ = got == 0;
    return got;
}

std::size_t StreamBody::take_buffered(std::span<std::byte> into) {
    const std::string_view held = buffer_.view();
    const std::size_t count = std::min(held.size(), into.size());
    std::memcpy(into.data(), held.data(), count);
    buffer_.consume(count);
    return count;
}

std::size_t StreamBody::read_length(std::span<std::byte> into) {
    into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(left_, into.size())));
    std::size_t got = 0;
    if (buffer_.empty() && into.size() >= kDirectRead) {
        got = stream_.read(into, patience_.next());
        if (got == 0) peer_vanished();
    } else {
        if (buffer_.empty() && !buffer_.fill(stream_, patience_.next(), 1u << 16)) peer_vanished();
        got = take_buffered(into);
    }
    left_ -= got;
    return got;
}

std::size_t StreamBody::read_chunked(std::span<std::byte> into) {
    while (true) {
        if (buffer_.empty()) {
            if (chunks_.plain() > 0 && into.size() >= kDirectRead) {
                const std::size_t want =
                    static_cast<std::size_t>(std::min<std::uint64_t>(chunks_.plain(), into.size()));
                const std::size_t got = stream_.read(into.first(want), patience_.next());
                if (got == 0) peer_vanished();
                chunks_.took_plain(got);
                return got;
            }
            if (!buffer_.fill(stream_, patience_.next(), 1u << 16)) peer_vanished();
        }
        const std::string_view held = buffer_.view();
        const ChunkDecoder::Step step =
            chunks_.decode(std::as_bytes(std::span(held.data(), held.size())), into);
        buffer_.consume(step.consumed);
        if (step.produced > 0 || chunks_.done()) return step.produced;
    }
}

std::optional<std::uint64_t> StreamBody::length() const {
    switch (framing_.kind) {
        case Framing::Kind::none:
            return 0;
        case Framing::Kind::length:
            return framing_.length;
        case Framing::Kind::chunked:
        case Framing::Kind::until_close:
            return std::nullopt;
    }
    return std::nullopt;
}

bool StreamBody::is_finished() const {
    switch (framing_.kind) {
        case Framing::Kind::none:
            return true;
        case Framing::Kind::length:
            return left_ == 0;
        case Framing::Kind::chunked:
            return chunks_.done();
        case Framing::Kind::until_close:
            return closed_;
    }
    return true;
}

bool StreamBody::can_drain(std::uint64_t limit) const {
    if (is_finished()) return true;
    if (failed_ || is_held_back()) return false;
    return framing_.kind == Framing::Kind::chunked ||
           (framing_.kind == Framing::Kind::length && left_ <= limit);
}

bool StreamBody::drain(std::uint64_t limit) {
    std::byte sink[16384];
    std::uint64_t drained = 0;
    while (const std::size_t got = read(sink)) {
        drained += got;
        if (drained > limit) return false;
    }
    return true;
}

}  // namespace ty::http
