// SPDX-License-Identifier: Apache-2.0
// Response heads as bytes, and the writers of streamed bodies. Private to http.
#pragma once

#include "http/http.h"
#include "http/stream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ty::http {

/// What follows a response head.
struct Outgoing {
    enum class Kind { nothing, length, chunked, until_close } kind = Kind::nothing;
    std::uint64_t length = 0;  ///< of Kind::length
};

/// Header fields that belong to the connection, not to the handler.
bool is_framing_header(std::string_view name);

/// Append a whole head with its empty line. `connection` is the Connection header's value, empty
/// for none. Control characters in values become blanks: what users stored must not split a
/// response.
void append_response_head(std::string& out, int status, const Headers& headers,
                          const Outgoing& body, std::string_view connection, std::string_view date);

/// A complete plain text response that closes the connection.
std::string plain_response(int status, std::string_view text);

/// Sends each write at once; finish() ends the body. Throws unavailable when the client is gone.
class StreamWriter final : public BodyWriter {
public:
    StreamWriter(Stream& stream, const Outgoing& body, milliseconds stall)
        : stream_(stream), kind_(body.kind), left_(body.length), stall_(stall) {}
    using BodyWriter::write;
    void write(std::span<const std::byte> data) override;
    void finish();

private:
    void write_chunk(std::span<const std::byte> data);

    Stream& stream_;
    Outgoing::Kind kind_;
    std::uint64_t left_;
    milliseconds stall_;
    std::string scratch_;
};

}  // namespace ty::http
