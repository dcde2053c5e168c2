// SPDX-License-Identifier: Apache-2.0
// See body.h.
#include "api/body.h"

#include "base/error.h"
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

}  // namespace ty::api
