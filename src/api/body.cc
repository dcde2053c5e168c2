// SPDX-License-Identifier: Apache-2.0
// See body.h.
#include "api/body.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

#include <zlib.h>

#include <array>

namespace ty::api {

namespace {

/// inflateEnd on every way out.
class Inflater {
public:
    Inflater() {
        // 15 bits of window, +16: a gzip header is expected.
        if (inflateInit2(&stream_, 15 + 16) != Z_OK)
            throw_error(Code::exhausted, "", "no memory to unpack a request body");
    }
    ~Inflater() { inflateEnd(&stream_); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;
    z_stream& stream() { return stream_; }

private:
    z_stream stream_{};
};

std::string inflate_gzip(std::string& packed, Bytes limit) {
    Inflater inflater;
    z_stream& stream = inflater.stream();
    stream.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_in = uInt(packed.size());
    std::string out;
    std::array<char, 16384> piece{};
    int state = Z_OK;
    while (state != Z_STREAM_END) {
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = uInt(piece.size());
        state = inflate(&stream, Z_NO_FLUSH);
        if (state != Z_OK && state != Z_STREAM_END)
            throw_error(Code::invalid, "InvalidContentEncoding",
                        "the request body is not valid gzip, as its Content-Encoding says");
        out.append(piece.data(), piece.size() - stream.avail_out);
        if (out.size() > limit.count())
            throw_error(Code::exhausted, "EntityTooLarge",
                        "the request body unpacks to more than {}", to_string(limit));
    }
    return out;
}

}  // namespace

std::string unpack_body(std::string body, std::string_view content_encoding, Bytes limit) {
    if (!equals_ignoring_case(trim(content_encoding), "gzip") || body.empty()) return body;
    return inflate_gzip(body, limit);
}

struct HashedBody::State {
    Hasher hasher{HashKind::sha256};
    std::uint64_t seen = 0;
    bool checked = false;
};

HashedBody::HashedBody(http::BodyReader& inner, std::string expected_hex)
    : inner_(inner), expected_(to_lower(expected_hex)), state_(std::make_unique<State>()) {}
HashedBody::~HashedBody() = default;

std::optional<std::uint64_t> HashedBody::length() const {
    return inner_.length();
}

std::size_t HashedBody::read(std::span<std::byte> into) {
    const std::size_t count = inner_.read(into);
    state_->hasher.update(into.first(count));
    state_->seen += count;
    // A reader that knows the length does not ask for the end.
    if (count == 0 ? !into.empty() : inner_.length() == state_->seen) check();
    return count;
}

void HashedBody::check() {
    if (state_->checked) return;
    state_->checked = true;
    if (to_hex(as_bytes(state_->hasher.finish())) == expected_) return;
    throw_error(Code::invalid, "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.");
}

}  // namespace ty::api
