// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 heads from bytes in memory. Private to http; strict where leniency would let two parties
// disagree about where a message ends (RFC 9112 section 11.2), so every line must end in CRLF.
#pragma once

#include "http/http.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ty::http {

/// How the end of a body is found.
struct Framing {
    enum class Kind { none, length, chunked, until_close } kind = Kind::none;
    std::uint64_t length = 0;  ///< of Kind::length
};

/// Why a message is not served: the answer's status and its one-line body.
struct Refusal {
    int status = 400;
    std::string text;
};

struct RequestHead {
    std::string method;
    std::string path;
    std::string query;
    std::string authority;  ///< of an absolute-form or CONNECT target
    Headers headers;
    Framing framing;
    bool http10 = false;
    bool keep_alive = true;
    bool expects_continue = false;
};

struct ResponseHead {
    int status = 0;
    Headers headers;
    Framing framing;  ///< as the headers say; the caller knows about HEAD
    bool keep_alive = true;
};

/// Length of the head at the start of `data`, its empty line included; nullopt when more bytes are
/// needed. `scanned` is where an earlier search of the same, shorter data may be resumed.
std::optional<std::size_t> find_head_end(std::string_view data, std::size_t scanned = 0);

/// `head` is exactly one head. nullopt: `out` is filled.
std::optional<Refusal> parse_request_head(std::string_view head, std::size_t header_count,
                                          RequestHead& out);
std::optional<Refusal> parse_response_head(std::string_view head, std::size_t header_count,
                                           ResponseHead& out);

/// "host:port" or "[v6]:port"; nullopt when it is not.
struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
std::optional<HostPort> parse_host_port(std::string_view text);

std::string_view reason_phrase(int status);

}  // namespace ty::http
