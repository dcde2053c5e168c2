// SPDX-License-Identifier: Apache-2.0
// Bytes from a pipe into lines, without a copy per line. Any bytes are accepted; nothing is lost:
// a line beyond the cap is delivered in pieces, the rest of an unfinished line by flush().
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ty::agent {

class LineCutter {
public:
    /// Lines come without their end ("\n" or "\r\n"); a lone "\r" is kept. Valid UTF-8 always:
    /// foreign bytes are replaced by U+FFFD.
    using Sink = std::function<void(std::string_view line)>;
    static constexpr std::size_t kLineCap = 256u << 10;

    explicit LineCutter(std::size_t cap = kLineCap) : cap_(cap) {}

    void feed(std::string_view data, const Sink& sink);
    /// Deliver what has no line end yet.
    void flush(const Sink& sink);

private:
    void emit(std::string_view line, const Sink& sink);
    void emit_full_pieces(const Sink& sink);

    std::size_t cap_;
    std::string partial_;
};

}  // namespace ty::agent
