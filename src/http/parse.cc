// SPDX-License-Identifier: Apache-2.0
// Request and response heads. One pass over the bytes; strings are made only for what is kept.
#include "http/parse.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::http {

namespace {

constexpr std::array<bool, 256> make_token_table() {
    std::array<bool, 256> table = {};
    for (unsigned c = '0'; c <= '9'; ++c) table[c] = true;
    for (unsigned c = 'a'; c <= 'z'; ++c) table[c] = true;
    for (unsigned c = 'A'; c <= 'Z'; ++c) table[c] = true;
    for (const char c :
         {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) {
        table[static_cast<unsigned char>(c)] = true;
    }
    return table;
}
constexpr std::array<bool, 256> kToken = make_token_table();

bool is_token(std::string_view text) {
    return !text.empty() &&
           std::ranges::all_of(text, [](char c) { return kToken[static_cast<unsigned char>(c)]; });
}

/// Visible bytes and, because clients send raw UTF-8, everything above ASCII.
bool is_target_char(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
}

bool is_value_char(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

std::string_view strip_blanks(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

/// Next line without its CRLF; nullopt when a line does not end in CRLF.
std::optional<std::string_view> take_line(std::string_view& rest) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos || end == 0 || rest[end - 1] != '\r') return std::nullopt;
    const std::string_view line = rest.substr(0, end - 1);
    rest.remove_prefix(end + 1);
    return line;
}

/// Digits only, at most 18 of them, so that sums stay far from overflow.
std::optional<std::uint64_t> parse_length(std::string_view text) {
    if (text.empty() || text.size() > 18) return std::nullopt;
    std::uint64_t value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return std::nullopt;
        value = value * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return value;
}

/// What the framing and connection headers say, gathered while they are read.
struct Facts {
    std::optional<std::uint64_t> length;
    bool chunked = false;
    bool close = false;
    bool keep_alive = false;
    int hosts = 0;
    bool expects_continue = false;
};

Refusal bad(std::string text) {
    return Refusal{400, std::move(text)};
}

std::optional<Refusal> note_connection(std::string_view value, Facts& facts) {
    while (!value.empty()) {
        const auto comma = std::min(value.find(','), value.size());
        const std::string_view option = strip_blanks(value.substr(0, comma));
        if (equals_ignoring_case(option, "close")) facts.close = true;
        if (equals_ignoring_case(option, "keep-alive")) facts.keep_alive = true;
        value.remove_prefix(std::min(comma + 1, value.size()));
    }
    return std::nullopt;
}

std::optional<Refusal> note(std::string_view name, std::string_view value, Facts& facts) {
    switch (name.size()) {
        case 4:
            if (equals_ignoring_case(name, "Host") && ++facts.hosts > 1)
                return bad("more than one Host header");
            break;
        case 6:
            if (!equals_ignoring_case(name, "Expect")) break;
            if (!equals_ignoring_case(value, "100-continue")) {
                return Refusal{417, "only the expectation 100-continue is known"};
            }
            facts.expects_continue = true;
            break;
        case 10:
            if (equals_ignoring_case(name, "Connection")) return note_connection(value, facts);
            break;
        case 14: {
            if (!equals_ignoring_case(name, "Content-Length")) break;
            const auto length = parse_length(value);
            if (!length) return bad("Content-Length is not a number");
            if (facts.length && *facts.length != *length)
                return bad("two different Content-Length headers");
            facts.length = length;
            break;
        }
        case 17:
            if (!equals_ignoring_case(name, "Transfer-Encoding")) break;
            if (!equals_ignoring_case(value, "chunked")) {
                return Refusal{501, "only the transfer encoding chunked is known"};
            }
            if (facts.chunked) return bad("more than one Transfer-Encoding header");
            facts.chunked = true;
            break;
        default:
            break;
    }
    return std::nullopt;
}

std::optional<Refusal> parse_fields(std::string_view rest, std::size_t header_count,
                                    Headers& headers, Facts& facts) {
    std::size_t count = 0;
    while (true) {
        const auto line = take_line(rest);
        if (!line) return bad("a header line does not end in CRLF");
        if (line->empty()) break;
        if (++count > header_count)
            return Refusal{431, format("more than {} headers", header_count)};
        const auto colon = line->find(':');
        if (colon == std::string_view::npos) return bad("a header line has no colon");
        const std::string_view name = line->substr(0, colon);
        // Covers blanks before the colon and folded lines, too.
        if (!is_token(name)) return bad("a header name holds a forbidden character");
        const std::string_view value = strip_blanks(line->substr(colon + 1));
        if (!std::ranges::all_of(value, is_value_char)) {
            return bad("a header value holds a control character");
        }
        if (auto refusal = note(name, value, facts)) return refusal;
        headers.add(std::string(name), std::string(value));
    }
    if (!rest.empty()) return bad("bytes after the end of the head");
    if (facts.length && facts.chunked) return bad("both Content-Length and Transfer-Encoding");
    return std::nullopt;
}

std::optional<Refusal> split_target(std::string_view target, RequestHead& out) {
    if (out.method == "CONNECT") {
        out.authority = target;
        return std::nullopt;
    }
    if (target.front() != '/' && target != "*") {
        // Absolute form, as clients of a proxy send it.
        const auto scheme_end = target.find("://");
        if (scheme_end == std::string_view::npos || !is_token(target.substr(0, scheme_end))) {
            return bad("the request target is neither a path nor a URL");
        }
        target.remove_prefix(scheme_end + 3);
        const auto authority_end = std::min(target.find_first_of("/?"), target.size());
        if (authority_end == 0) return bad("the request target has no host");
        out.authority = target.substr(0, authority_end);
        target.remove_prefix(authority_end);
    }
    const auto question = std::min(target.find('?'), target.size());
    out.path = target.substr(0, question);
    if (out.path.empty()) out.path = "/";
    if (question < target.size()) out.query = target.substr(question + 1);
    return std::nullopt;
}

}  // namespace

std::optional<std::size_t> find_head_end(std::string_view data, std::size_t scanned) {
    // A bare LF LF ends the search as well: the parser then refuses at once instead of waiting.
    for (auto at = data.find('\n', scanned < 3 ? 0 : scanned - 3); at != std::string_view::npos;
         at = data.find('\n', at + 1)) {
        if (at + 1 < data.size() && data[at + 1] == '\n') return at + 2;
        if (at + 2 < data.size() && data[at + 1] == '\r' && data[at + 2] == '\n') return at + 3;
    }
    return std::nullopt;
}

std::optional<Refusal> parse_request_head(std::string_view head, std::size_t header_count,
                                          RequestHead& out) {
    const auto line = take_line(head);
    if (!line) return bad("the request line does not end in CRLF");
    const auto first = line->find(' ');
    const auto last = line->rfind(' ');
    if (first == std::string_view::npos || first == last) {
        return bad("the request line is not \"METHOD target HTTP/1.1\"");
    }
    const std::string_view method = line->substr(0, first);
    const std::string_view target = line->substr(first + 1, last - first - 1);
    const std::string_view version = line->substr(last + 1);
    if (!is_token(method)) return bad("the method holds a forbidden character");
    if (version.size() != 8 || !version.starts_with("HTTP/")) {
        return bad("the request line does not end in an HTTP version");
    }
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
        return Refusal{505, "only HTTP/1.1 and HTTP/1.0 are spoken here"};
    }
    if (target.empty() || !std::ranges::all_of(target, is_target_char)) {
        return bad("the request target holds a blank or control character");
    }
    out.method = method;
    out.http10 = version == "HTTP/1.0";
    if (auto refusal = split_target(target, out)) return refusal;

    Facts facts;
    if (auto refusal = parse_fields(head, header_count, out.headers, facts)) return refusal;
    if (facts.chunked && out.http10) return bad("Transfer-Encoding in an HTTP/1.0 request");
    if (facts.hosts == 0 && !out.http10) {
        if (out.authority.empty()) return bad("an HTTP/1.1 request needs a Host header");
        out.headers.add("Host", out.authority);
    }
    if (facts.chunked) {
        out.framing.kind = Framing::Kind::chunked;
    } else if (facts.length) {
        out.framing = Framing{Framing::Kind::length, *facts.length};
    }
    out.keep_alive = !facts.close && (!out.http10 || facts.keep_alive);
    out.expects_continue = facts.expects_continue && !out.http10;
    return std::nullopt;
}

std::optional<Refusal> parse_response_head(std::string_view head, std::size_t header_count,
                                           ResponseHead& out) {
    const auto line = take_line(head);
    if (!line) return bad("the status line does not end in CRLF");
    // "HTTP/1.1 200 OK"; the phrase may be missing.
    const bool http10 = line->starts_with("HTTP/1.0 ");
    if (!http10 && !line->starts_with("HTTP/1.1 ")) return bad("not an HTTP/1.1 status line");
    const auto status = parse_length(line->substr(9, 3));
    if (line->size() < 12 || !status || *status < 100 || *status > 599 ||
        (line->size() > 12 && (*line)[12] != ' ')) {
        return bad("the status line has no status");
    }
    out.status = static_cast<int>(*status);
    Facts facts;
    if (auto refusal = parse_fields(head, header_count, out.headers, facts)) return refusal;
    if (facts.chunked) {
        out.framing.kind = Framing::Kind::chunked;
    } else if (facts.length) {
        out.framing = Framing{Framing::Kind::length, *facts.length};
    } else {
        out.framing.kind = Framing::Kind::until_close;
    }
    if (out.status < 200 || out.status == 204 || out.status == 304) out.framing = Framing{};
    out.keep_alive = !facts.close && (!http10 || facts.keep_alive) &&
                     out.framing.kind != Framing::Kind::until_close;
    return std::nullopt;
}

std::optional<HostPort> parse_host_port(std::string_view text) {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto port = parse_length(text.substr(colon + 1));
    if (!port || *port == 0 || *port > 65535) return std::nullopt;
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
        if (host.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos)
            return std::nullopt;
    } else if (!std::ranges::all_of(host, [](char c) {
                   return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
               })) {
        return std::nullopt;
    }
    if (host.empty() || host.size() > 253) return std::nullopt;
    return HostPort{to_lower(host), static_cast<std::uint16_t>(*port)};
}

std::string_view reason_phrase(int status) {
    struct Phrase {
        int status;
        std::string_view text;
    };
    static constexpr Phrase kPhrases[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {424, "Failed Dependency"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    const auto it = std::ranges::lower_bound(kPhrases, status, {}, &Phrase::status);
    return it != std::end(kPhrases) && it->status == status ? it->text : std::string_view("Status");
}

}  // namespace ty::http
