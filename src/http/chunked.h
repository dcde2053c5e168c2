// SPDX-License-Identifier: Apache-2.0
// The chunked transfer coding (RFC 9112 section 7.1), decoded from memory to memory. Private to
// http.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ty::http {

/// Push decoder: whoever has bytes calls decode(); nothing is buffered inside. Chunk extensions and
/// trailers are skipped, their sizes bounded.
class ChunkDecoder {
public:
    struct Step {
        std::size_t consumed = 0;
        std::size_t produced = 0;
    };
    /// Decode from `in` to `out` until one of them is used up or the body ends. Throws invalid
    /// ("MalformedChunk").
    Step decode(std::span<const std::byte> in, std::span<std::byte> out);
    bool done() const { return state_ == State::done; }

    /// Bytes that may be taken from the stream as they are: inside a chunk, 0 elsewhere.
    std::uint64_t plain() const { return state_ == State::data ? left_ : 0; }
    /// `count` <= plain() bytes were taken past the decoder.
    void took_plain(std::uint64_t count);

private:
    enum class State {
        size,
        extension,
        size_lf,
        data,
        data_cr,
        data_lf,
        trailer,
        trailer_line,
        trailer_lf,
        end_lf,
        done
    };
    void eat(char c);
    void end_of_size();
    void count_overhead();

    State state_ = State::size;
    std::uint64_t left_ = 0;
    unsigned digits_ = 0;
    unsigned overhead_ = 0;  ///< bytes of the current size line, or of all trailers
};

}  // namespace ty::http
