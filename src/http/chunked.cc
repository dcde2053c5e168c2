// SPDX-License-Identifier: Apache-2.0
// A byte-wise automaton for everything between the data, block copies for the data.
#include "http/chunked.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>

namespace ty::http {

namespace {

/// Of one size line with its extensions, and of all trailers together.
constexpr unsigned kOverheadLimit = 8192;

[[noreturn]] void malformed(const char* what) {
    throw_error(Code::invalid, "MalformedChunk", "chunked body: {}", what);
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

}  // namespace

ChunkDecoder::Step ChunkDecoder::decode(std::span<const std::byte> in, std::span<std::byte> out) {
    Step step;
    while (step.consumed < in.size() && state_ != State::done) {
        if (state_ != State::data) {
            eat(static_cast<char>(in[step.consumed++]));
            continue;
        }
        const std::size_t room = out.size() - step.produced;
        const std::size_t count = static_cast<std::size_t>(
            std::min<std::uint64_t>(left_, std::min(in.size() - step.consumed, room)));
        if (count == 0) break;
        std::memcpy(out.data() + step.produced, in.data() + step.consumed, count);
        step.consumed += count;
        step.produced += count;
        took_plain(count);
    }
    return step;
}

void ChunkDecoder::took_plain(std::uint64_t count) {
    left_ -= count;
    if (left_ == 0) state_ = State::data_cr;
}

void ChunkDecoder::count_overhead() {
    if (++overhead_ > kOverheadLimit) malformed("chunk extensions or trailers are too long");
}

void ChunkDecoder::end_of_size() {
    overhead_ = 0;
    digits_ = 0;
    state_ = left_ == 0 ? State::trailer : State::data;
}

void ChunkDecoder::eat(char c) {
    switch (state_) {
        case State::size: {
            count_overhead();
            if (const int value = hex_value(c); value >= 0) {
                // 15 digits: no overflow, and far more than any body.
                if (++digits_ > 15) malformed("a chunk size has too many digits");
                left_ = left_ * 16 + static_cast<std::uint64_t>(value);
                return;
            }
            if (digits_ == 0) malformed("a chunk size is missing");
            if (c == '\r') {
                state_ = State::size_lf;
            } else if (c == ';' || c == ' ' || c == '\t') {
                state_ = State::extension;
            } else {
                malformed("a chunk size is not hexadecimal");
            }
            return;
        }
        case State::extension:
            count_overhead();
            if (c == '\r') state_ = State::size_lf;
            if (c == '\n') malformed("a line ends without CR");
            return;
        case State::size_lf:
            if (c != '\n') malformed("a chunk size line does not end in CRLF");
            end_of_size();
            return;
        case State::data_cr:
            if (c != '\r') malformed("a chunk is longer than its size");
            state_ = State::data_lf;
            return;
        case State::data_lf:
            if (c != '\n') malformed("a chunk does not end in CRLF");
            state_ = State::size;
            return;
        case State::trailer:
            count_overhead();
            if (c == '\n') malformed("a line ends without CR");
            state_ = c == '\r' ? State::end_lf : State::trailer_line;
            return;
        case State::trailer_line:
            count_overhead();
            if (c == '\r') state_ = State::trailer_lf;
            if (c == '\n') malformed("a line ends without CR");
            return;
        case State::trailer_lf:
            if (c != '\n') malformed("a trailer line does not end in CRLF");
            state_ = State::trailer;
            return;
        case State::end_lf:
            if (c != '\n') malformed("the last line does not end in CRLF");
            state_ = State::done;
            return;
        case State::data:
        case State::done:
            return;
    }
}

}  // namespace ty::http
