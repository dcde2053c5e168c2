// SPDX-License-Identifier: Apache-2.0
// Bodies of S3 uploads: plain bytes, or "aws-chunked" framing inside the HTTP body.
//
// A chunk is handed out as it arrives and its signature checked at its end; the last read() returns
// 0 only when everything was verified, so a consumer that commits after 0 never commits forged
// bytes. Memory: one 64 KiB input buffer whatever sizes the peer announces.
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and
// sigv4-streaming-trailers.html
#include "aws/signature.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>
#include <cstring>

namespace ty::aws {

namespace {

constexpr std::size_t kBuffer = 64 << 10;
constexpr std::size_t kMaxLine = 4096;  // a chunk header is under 120 bytes
constexpr std::size_t kMaxTrailers = 32;
constexpr std::uint64_t kMaxChunk = 5ull << 30;  // the largest single upload there is
constexpr std::string_view kTrailerSignature = "x-amz-trailer-signature";

enum class Framing { plain, unsigned_trailer, signed_chunks, signed_chunks_trailer };

Framing framing_of(std::string_view payload_hash) {
    if (!payload_hash.starts_with("STREAMING-")) return Framing::plain;
    if (payload_hash == "STREAMING-UNSIGNED-PAYLOAD-TRAILER") return Framing::unsigned_trailer;
    if (payload_hash == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") return Framing::signed_chunks;
    if (payload_hash == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")
        return Framing::signed_chunks_trailer;
    throw_error(Code::unsupported, "NotImplemented",
                "x-amz-content-sha256 \"{}\" is not supported; use AWS4-HMAC-SHA256 signatures",
                to_valid_utf8(payload_hash.substr(0, 80)));
}

[[noreturn]] void incomplete(std::string_view detail) {
    throw_error(
        Code::invalid, "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header: {}",
        detail);
}
[[noreturn]] void bad_framing(std::string_view detail) {
    throw_error(Code::invalid, "InvalidRequest", "The aws-chunked body is malformed: {}", detail);
}
[[noreturn]] void bad_trailer(std::string_view detail) {
    throw_error(
        Code::invalid, "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our "
        "published schema: {}",
        detail);
}

std::optional<std::uint64_t> parse_length(std::string_view text) {
    const auto value = parse_int(trim(text));
    if (!value || *value < 0) return std::nullopt;
    return std::uint64_t(*value);
}

std::optional<std::uint64_t> parse_chunk_size(std::string_view text) {
    if (text.empty() || text.size() > 16) return std::nullopt;
    std::uint64_t value = 0;
    for (const char c : text) {
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return std::nullopt;
        value = value << 4 | std::uint64_t(digit);
    }
    return value;
}

/// Lines and runs of bytes over the HTTP body.
class Input {
public:
    explicit Input(http::BodyReader& body) : body_(body) {}

    /// Up to CRLF, which is consumed; nullopt at the clean end of the body.
    std::optional<std::string> line() {
        std::string out;
        while (true) {
            if (begin_ == end_ && !fill()) {
                if (out.empty()) return std::nullopt;
                incomplete("the body ends inside the framing");
            }
            const char c = char(buffer_[begin_++]);
            if (c == '\n') {
                if (out.empty() || out.back() != '\r') bad_framing("a line does not end in CRLF");
                out.pop_back();
                return out;
            }
            out += c;
            if (out.size() > kMaxLine) bad_framing("a framing line is longer than 4096 bytes");
        }
    }

    /// At least one byte unless the body ended.
    std::size_t read(std::span<std::byte> into) {
        if (begin_ == end_) {
            // Big reads go straight to the caller's memory.
            if (into.size() >= kBuffer / 2) return body_.read(into);
            if (!fill()) return 0;
        }
        const std::size_t count = std::min(into.size(), end_ - begin_);
        std::memcpy(into.data(), buffer_.data() + begin_, count);
        begin_ += count;
        return count;
    }

    bool at_end() { return begin_ == end_ && !fill(); }

private:
    bool fill() {
        if (buffer_.empty()) buffer_.resize(kBuffer);
        begin_ = 0;
        end_ = body_.read(buffer_);
        return end_ > 0;
    }

    http::BodyReader& body_;
    std::vector<std::byte> buffer_;
    std::size_t begin_ = 0, end_ = 0;
};

}  // namespace

struct PayloadReader::Impl {
    Impl(http::Request& request, const Verified& verified)
        : framing(framing_of(verified.payload_hash)),
          body(*request.body),
          input(*request.body),
          scope_line(credential_scope(verified.scope)),
          key(verified.signing_key),
          amz_date(verified.amz_date),
          previous(verified.signature) {
        if (framing == Framing::plain) {
            decoded = request.body->length();
            return;
        }
        if (const auto sent = request.headers.find("x-amz-decoded-content-length")) {
            decoded = parse_length(*sent);
            if (!decoded)
                throw_error(Code::invalid, "InvalidArgument",
                            "x-amz-decoded-content-length must be a number, not \"{}\"",
                            to_valid_utf8(sent->substr(0, 40)));
        }
        if (const auto sent = request.headers.find("x-amz-trailer"))
            for (const std::string& name : split(*sent, ','))
                if (!trim(name).empty()) declared.push_back(to_lower(trim(name)));
        if (declared.size() > kMaxTrailers) bad_trailer("more than 32 trailers are announced");
    }

    bool is_signed() const {
        return framing == Framing::signed_chunks || framing == Framing::signed_chunks_trailer;
    }

    std::size_t read(std::span<std::byte> into) {
        if (into.empty() || finished) return 0;
        if (framing == Framing::plain) return read_plain(into);
        if (left == 0) {
            if (in_chunk) end_chunk();
            start_chunk();
            if (finished) return 0;
        }
        const std::size_t count =
            input.read(into.first(std::size_t(std::min<std::uint64_t>(into.size(), left))));
        if (count == 0) incomplete("a chunk is cut short");
        if (is_signed()) chunk_hash->update(into.first(count));
        left -= count;
        total += count;
        return count;
    }

    std::size_t read_plain(std::span<std::byte> into) {
        const std::size_t count = body.read(into);
        if (count == 0) finished = true;
        return count;
    }

    void start_chunk() {
        const auto line = input.line();
        if (!line) incomplete("the last chunk is missing");
        const auto semicolon = std::min(line->find(';'), line->size());
        const auto size = parse_chunk_size(trim(std::string_view(*line).substr(0, semicolon)));
        if (!size || *size > kMaxChunk)
            bad_framing("a chunk size is not a hexadecimal number of at most 5 GiB");
        if (is_signed()) {
            chunk_signature = read_chunk_signature(std::string_view(*line).substr(semicolon));
            chunk_hash.emplace(HashKind::sha256);
        }
        if (decoded && total + *size > *decoded)
            incomplete(
                format("chunks hold more than the x-amz-decoded-content-length of {}", *decoded));
        left = *size;
        in_chunk = left > 0;
        if (left == 0) finish();
    }

    static std::string read_chunk_signature(std::string_view extension) {
        constexpr std::string_view kName = ";chunk-signature=";
        if (!extension.starts_with(kName) || extension.size() != kName.size() + 64)
            bad_framing("a chunk carries no chunk-signature");
        return std::string(extension.substr(kName.size()));
    }

    void end_chunk() {
        const auto line = input.line();
        if (!line) incomplete("the body ends after a chunk");
        if (!line->empty()) bad_framing("a chunk is longer than its header says");
        check_chunk();
        in_chunk = false;
    }

    /// "AWS4-HMAC-SHA256-PAYLOAD", date, scope, previous signature, hash of nothing, hash of the
    /// chunk.
    void check_chunk() {
        if (!is_signed()) return;
        const std::string text =
            format("AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{}\n{}", amz_date, scope_line, previous,
                   kEmptyHash, to_hex(as_bytes(chunk_hash->finish())));
        check_link(text, chunk_signature, "a chunk");
    }

    void check_link(const std::string& text, const std::string& claimed, std::string_view what) {
        if (!equal_in_constant_time(hmac_hex(key, text), claimed))
            throw_error(Code::denied, "SignatureDoesNotMatch",
                        "The request signature we calculated does not match the signature you "
                        "provided ({} of the "
                        "body). Check your AWS Secret Access Key and signing method.",
                        what);
        previous = claimed;
    }

    void finish() {
        check_chunk();
        read_trailers();
        if (!input.at_end()) bad_trailer("bytes follow the end of the body");
        if (decoded && total != *decoded)
            incomplete(format("{} bytes arrived of the x-amz-decoded-content-length of {}", total,
                              *decoded));
        finished = true;
    }

    void read_trailers() {
        std::string canonical, signature;
        while (const auto line = input.line()) {
            if (line->empty()) break;
            const auto colon = line->find(':');
            if (colon == std::string::npos || colon == 0)
                bad_trailer("a line is not \"name:value\"");
            const std::string name = to_lower(trim(std::string_view(*line).substr(0, colon)));
            const std::string value(trim(std::string_view(*line).substr(colon + 1)));
            if (name == kTrailerSignature) {
                signature = value;
                continue;
            }
            if (!signature.empty()) bad_trailer("a trailer follows x-amz-trailer-signature");
            if (std::ranges::find(declared, name) == declared.end())
                bad_trailer(format("\"{}\" is not announced in x-amz-trailer",
                                   to_valid_utf8(name.substr(0, 80))));
            if (!trailers.emplace(name, value).second)
                bad_trailer(format("\"{}\" appears twice", name));
            canonical += name + ':' + value + '\n';
        }
        for (const std::string& name : declared)
            if (!trailers.contains(name))
                bad_trailer(
                    format("\"{}\" is announced but absent", to_valid_utf8(name.substr(0, 80))));
        if (framing == Framing::signed_chunks_trailer) check_trailer(canonical, signature);
    }

    /// "AWS4-HMAC-SHA256-TRAILER", date, scope, signature of the last chunk, hash of the trailer
    /// lines.
    void check_trailer(const std::string& canonical, const std::string& signature) {
        if (signature.empty()) bad_trailer("x-amz-trailer-signature is missing");
        const std::string text = format("AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{}\n{}", amz_date,
                                        scope_line, previous, sha256_hex(canonical));
        check_link(text, signature, "the trailer");
    }

    const Framing framing;
    http::BodyReader& body;
    Input input;
    const std::string scope_line, key, amz_date;
    std::string previous;         // signature of the link before
    std::string chunk_signature;  // claimed by the chunk being read
    std::optional<Hasher> chunk_hash;
    std::optional<std::uint64_t> decoded;
    std::uint64_t left = 0, total = 0;
    bool in_chunk = false, finished = false;
    std::vector<std::string> declared;
    std::map<std::string, std::string> trailers;
};

PayloadReader::PayloadReader(http::Request& request, const Verified& verified)
    : impl_(std::make_unique<Impl>(request, verified)) {}
PayloadReader::~PayloadReader() = default;

std::size_t PayloadReader::read(std::span<std::byte> into) {
    return impl_->read(into);
}
std::optional<std::uint64_t> PayloadReader::length() const {
    return impl_->decoded;
}
const std::map<std::string, std::string>& PayloadReader::trailers() const {
    return impl_->trailers;
}

}  // namespace ty::aws
