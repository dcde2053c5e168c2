// SPDX-License-Identifier: Apache-2.0
// Upload framings: AWS's published signed-chunk examples, what botocore sends, and what it never
// would.
#include "aws/aws.h"
#include "aws/signature.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace ty;
using namespace ty::aws;

namespace {

/// A body that arrives in pieces of `step` bytes.
class Pieces final : public http::BodyReader {
public:
    Pieces(std::string text, std::size_t step) : text_(std::move(text)), step_(step) {}
    std::size_t read(std::span<std::byte> into) override {
        const std::size_t count = std::min({into.size(), step_, text_.size() - at_});
        std::memcpy(into.data(), text_.data() + at_, count);
        at_ += count;
        return count;
    }
    std::optional<std::uint64_t> length() const override { return text_.size(); }

private:
    std::string text_;
    std::size_t step_, at_ = 0;
};

struct Upload {
    std::string body;
    Verified verified;
    std::vector<std::pair<std::string, std::string>> headers;
    std::size_t step = 1 << 20, buffer = 8192;
};

struct Outcome {
    std::string data, reason;
    std::map<std::string, std::string> trailers;
    std::optional<std::uint64_t> length;
};

Outcome receive(const Upload& upload) {
    Pieces body(upload.body, upload.step);
    http::Request request;
    for (const auto& [name, value] : upload.headers) request.headers.add(name, value);
    request.body = &body;
    Outcome outcome;
    try {
        PayloadReader reader(request, upload.verified);
        outcome.length = reader.length();
        std::vector<std::byte> buffer(upload.buffer);
        while (const std::size_t count = reader.read(buffer))
            outcome.data.append(reinterpret_cast<const char*>(buffer.data()), count);
        CHECK(reader.read(buffer) == 0);
        outcome.trailers = reader.trailers();
    } catch (const Error& error) {
        outcome.reason = error.reason();
    }
    return outcome;
}

Verified unsigned_trailer() {
    return {.payload_hash = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"};
}

Verified published(std::string payload_hash, std::string seed) {
    const Scope scope{"AKIAIOSFODNN7EXAMPLE", "20130524", "us-east-1", "s3", false};
    return {.scope = scope,
            .payload_hash = std::move(payload_hash),
            .signature = std::move(seed),
            .signing_key = derive_signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", scope),
            .amz_date = "20130524T000000Z"};
}

std::string chunk(std::string_view size, std::string_view signature, const std::string& data) {
    return format("{};chunk-signature={}\r\n{}{}", size, signature, data,
                  data.empty() ? "" : "\r\n");
}

/// The example of "Signature Calculations: Transferring Payload in Multiple Chunks".
Upload signed_example() {
    return {
        .body = chunk("10000", "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                      std::string(65536, 'a')) +
                chunk("400", "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                      std::string(1024, 'a')) +
                chunk("0", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9", "") +
                "\r\n",
        .verified = published("STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
                              "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"),
        .headers = {{"x-amz-decoded-content-length", "66560"}}};
}

/// The same with trailing headers.
Upload trailer_example() {
    return {
        .body = chunk("10000", "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                      std::string(65536, 'a')) +
                chunk("400", "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                      std::string(1024, 'a')) +
                chunk("0", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992", "") +
                "x-amz-checksum-crc32c:sOO8/Q==\r\n"
                "x-amz-trailer-signature:"
                "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n",
        .verified = published("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
                              "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"),
        .headers = {{"x-amz-decoded-content-length", "66560"},
                    {"x-amz-trailer", "x-amz-checksum-crc32c"}}};
}

Upload botocore(std::string body, std::string length = "11") {
    return {.body = std::move(body),
            .verified = unsigned_trailer(),
            .headers = {{"X-Amz-Decoded-Content-Length", std::move(length)},
                        {"X-Amz-Trailer", "x-amz-checksum-crc32"}}};
}

}  // namespace

TEST_CASE("a plain body passes through") {
    const Outcome outcome =
        receive({.body = "hello", .verified = {.payload_hash = "UNSIGNED-PAYLOAD"}, .step = 2});
    CHECK(outcome.data == "hello");
    CHECK(outcome.length == 5);
    CHECK(outcome.reason.empty());
}

TEST_CASE("the published signed chunks verify in pieces of every size") {
    for (const std::size_t step : {1u, 7u, 100u, 4096u, 1u << 20})
        for (const std::size_t buffer : {1u, 1000u, 100000u}) {
            if (step == 1 && buffer == 1) continue;
            CAPTURE(step);
            CAPTURE(buffer);
            Upload upload = signed_example();
            upload.step = step;
            upload.buffer = buffer;
            const Outcome outcome = receive(upload);
            CHECK(outcome.reason == "");
            CHECK(outcome.data == std::string(66560, 'a'));
            CHECK(outcome.length == 66560);
        }
}

TEST_CASE("the published signed trailer verifies") {
    const Outcome outcome = receive(trailer_example());
    CHECK(outcome.reason == "");
    CHECK(outcome.data.size() == 66560);
    CHECK(outcome.trailers ==
          std::map<std::string, std::string>{{"x-amz-checksum-crc32c", "sOO8/Q=="}});
}

TEST_CASE("a changed byte, chunk signature or trailer breaks the chain") {
    const auto with = [](Upload upload, std::string_view from, std::string_view to) {
        const auto at = upload.body.find(from);
        REQUIRE(at != std::string::npos);
        upload.body.replace(at, from.size(), to);
        return receive(upload).reason;
    };
    CHECK(with(signed_example(), "aaaa\r\n400", "aaab\r\n400") == "SignatureDoesNotMatch");
    CHECK(with(signed_example(), "ad80c730", "ad80c731") == "SignatureDoesNotMatch");
    CHECK(with(signed_example(), "b6c6ea8a", "b6c6ea8b") == "SignatureDoesNotMatch");
    CHECK(with(signed_example(), ";chunk-signature=ad80", ";chunk-sig=ad80") == "InvalidRequest");
    CHECK(with(trailer_example(), "sOO8/Q==", "sOO8/R==") == "SignatureDoesNotMatch");
    CHECK(with(trailer_example(), "d81f82fc", "d81f82fd") == "SignatureDoesNotMatch");
    CHECK(with(trailer_example(), "x-amz-trailer-signature:", "x-amz-trailer-other:") ==
          "MalformedTrailerError");
    CHECK(with(trailer_example(), "x-amz-checksum-crc32c:sOO8/Q==\r\n", "") ==
          "MalformedTrailerError");
    Upload foreign = signed_example();
    foreign.verified.signing_key[0] ^= 1;
    CHECK(receive(foreign).reason == "SignatureDoesNotMatch");
}

TEST_CASE("botocore's unsigned chunks and trailer are decoded") {
    Upload upload = botocore("b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n");
    for (const std::size_t step : {1u, 3u, 1000u}) {
        upload.step = step;
        const Outcome outcome = receive(upload);
        CHECK(outcome.reason == "");
        CHECK(outcome.data == "hello world");
        CHECK(outcome.trailers.at("x-amz-checksum-crc32") == "DUoRhQ==");
    }
    CHECK(receive(botocore("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "0")).reason == "");
    CHECK(receive(
              botocore("5\r\nhello\r\n6\r\n world\r\n0\r\nX-Amz-Checksum-CRC32: DUoRhQ== \r\n\r\n"))
              .data == "hello world");
}

TEST_CASE("broken framing is refused by name") {
    const auto reason = [](std::string body) { return receive(botocore(std::move(body))).reason; };
    CHECK(reason("") == "IncompleteBody");
    CHECK(reason("b\r\nhello") == "IncompleteBody");
    CHECK(reason("b\r\nhello world") == "IncompleteBody");
    CHECK(reason("b\r\nhello world\r\n") == "IncompleteBody");
    CHECK(reason("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:x\r\n\r\n") == "IncompleteBody");
    CHECK(reason("c\r\nhello world!\r\n0\r\n\r\n") == "IncompleteBody");
    CHECK(reason("b\nhello world\r\n0\r\n\r\n") == "InvalidRequest");
    CHECK(reason("xyz\r\nhello world\r\n0\r\n\r\n") == "InvalidRequest");
    CHECK(reason("-1\r\nhello world\r\n0\r\n\r\n") == "InvalidRequest");
    CHECK(reason("ffffffffffffffff\r\nhello") == "InvalidRequest");
    CHECK(reason("fffffffffffffffff\r\nhello") == "InvalidRequest");
    CHECK(reason("a\r\nhello world\r\n0\r\n\r\n") == "InvalidRequest");
    CHECK(reason(std::string(10000, 'a')) == "InvalidRequest");
    CHECK(reason("b\r\nhello world\r\n0\r\n\r\n") == "MalformedTrailerError");
    CHECK(reason("b\r\nhello world\r\n0\r\nx-amz-meta-evil:1\r\n\r\n") == "MalformedTrailerError");
    CHECK(reason("b\r\nhello world\r\n0\r\nnonsense\r\n\r\n") == "MalformedTrailerError");
    CHECK(
        reason(
            "b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:1\r\nx-amz-checksum-crc32:2\r\n\r\n") ==
        "MalformedTrailerError");
    CHECK(reason("b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:1\r\n\r\nmore") ==
          "MalformedTrailerError");
    CHECK(receive({.body = "x",
                   .verified = {.payload_hash = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}})
              .reason == "NotImplemented");
    CHECK(receive(botocore("0\r\n\r\n", "abc")).reason == "InvalidArgument");
}
