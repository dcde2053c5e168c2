// SPDX-License-Identifier: Apache-2.0
// aws-chunked bodies. First byte: framing and step of arrival; the rest: the body.
#include "aws/aws.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace ty;

namespace {

class Body final : public http::BodyReader {
public:
    Body(const uint8_t* data, size_t size, size_t step) : data_(data), left_(size), step_(step) {}
    std::size_t read(std::span<std::byte> into) override {
        const std::size_t count = std::min({into.size(), left_, step_});
        std::memcpy(into.data(), data_, count);
        data_ += count;
        left_ -= count;
        return count;
    }
    std::optional<std::uint64_t> length() const override { return std::nullopt; }

private:
    const uint8_t* data_;
    size_t left_, step_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    constexpr std::array kFramings{
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "UNSIGNED-PAYLOAD"};
    Body body(data + 1, size - 1, 1 + (data[0] >> 2));
    http::Request request;
    request.body = &body;
    request.headers.add("x-amz-trailer", "x-amz-checksum-crc32");
    aws::Verified verified;
    verified.payload_hash = kFramings[data[0] & 3];
    verified.signing_key = "0123456789abcdef0123456789abcdef";
    std::size_t total = 0;
    try {
        aws::PayloadReader reader(request, verified);
        std::array<std::byte, 512> buffer{};
        while (const std::size_t count = reader.read(buffer)) total += count;
    } catch (const Error&) {
    }
    if (total > size) std::abort();  // bytes out of nothing
    return 0;
}
