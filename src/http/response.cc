// SPDX-License-Identifier: Apache-2.0
#include "http/response.h"

#include "base/error.h"
#include "base/text.h"
#include "http/parse.h"

#include <algorithm>

namespace ty::http {

namespace {

/// Chunks up to this size are copied beside their framing and sent by one call.
constexpr std::size_t kSmallChunk = 16384;

void append_clean(std::string& out, std::string_view text) {
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; };
    if (std::ranges::none_of(text, control)) {
        out += text;
        return;
    }
    for (const char c : text) out += control(c) ? ' ' : c;
}

}  // namespace

bool is_framing_header(std::string_view name) {
    return (name.size() == 10 && equals_ignoring_case(name, "Connection")) ||
           (name.size() == 17 && equals_ignoring_case(name, "Transfer-Encoding"));
}

void append_response_head(std::string& out, int status, const Headers& headers,
                          const Outgoing& body, std::string_view connection,
                          std::string_view date) {
    out += "HTTP/1.1 ";
    const fmt::format_int number(status);
    out.append(number.data(), number.size());
    out += ' ';
    out += reason_phrase(status);
    out += "\r\n";
    bool has_date = date.empty();
    bool has_length = false;
    for (const auto& [name, value] : headers) {
        if (is_framing_header(name)) continue;
        if (name.size() == 14 && equals_ignoring_case(name, "Content-Length")) {
            // Of a body we measure ourselves only our own word counts.
            if (body.kind != Outgoing::Kind::nothing || has_length) continue;
            has_length = true;
        }
        if (name.size() == 4 && equals_ignoring_case(name, "Date")) has_date = true;
        append_clean(out, name);
        out += ": ";
        append_clean(out, value);
        out += "\r\n";
    }
    if (!has_date) {
        out += "Date: ";
        out += date;
        out += "\r\n";
    }
    if (body.kind == Outgoing::Kind::length) {
        out += "Content-Length: ";
        const fmt::format_int length(body.length);
        out.append(length.data(), length.size());
        out += "\r\n";
    } else if (body.kind == Outgoing::Kind::chunked) {
        out += "Transfer-Encoding: chunked\r\n";
    }
    if (!connection.empty()) {
        out += "Connection: ";
        out += connection;
        out += "\r\n";
    }
    out += "\r\n";
}

std::string plain_response(int status, std::string_view text) {
    Headers headers;
    headers.add("Content-Type", "text/plain; charset=utf-8");
    std::string out;
    append_response_head(out, status, headers, {Outgoing::Kind::length, text.size() + 1}, "close",
                         {});
    out += text;
    out += '\n';
    return out;
}

void StreamWriter::write(std::span<const std::byte> data) {
    if (data.empty()) return;  // an empty chunk would end the body
    switch (kind_) {
        case Outgoing::Kind::nothing:
            return;
        case Outgoing::Kind::chunked:
            return write_chunk(data);
        case Outgoing::Kind::length:
            if (data.size() > left_) {
                throw_error(Code::internal, "",
                            "a streamed body is longer than its Content-Length");
            }
            left_ -= data.size();
            break;
        case Outgoing::Kind::until_close:
            break;
    }
    write_in_pieces(stream_, {}, data, stall_);
}

void StreamWriter::write_chunk(std::span<const std::byte> data) {
    scratch_.clear();
    fmt::format_to(std::back_inserter(scratch_), "{:x}\r\n", data.size());
    if (data.size() <= kSmallChunk) {
        scratch_.append(reinterpret_cast<const char*>(data.data()), data.size());
        scratch_ += "\r\n";
        stream_.write(as_bytes(scratch_), {}, Deadline::in(stall_));
        return;
    }
    // The CRLF is not saved for the next chunk: some clients hand a chunk over only after it.
    write_in_pieces(stream_, as_bytes(scratch_), data, stall_);
    stream_.write(as_bytes("\r\n"), {}, Deadline::in(stall_));
}

void StreamWriter::finish() {
    if (kind_ == Outgoing::Kind::chunked) {
        stream_.write(as_bytes("0\r\n\r\n"), {}, Deadline::in(stall_));
    }
    if (kind_ == Outgoing::Kind::length && left_ > 0) {
        throw_error(Code::internal, "", "a streamed body ended {} bytes before its Content-Length",
                    left_);
    }
}

}  // namespace ty::http
