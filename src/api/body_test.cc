// SPDX-License-Identifier: Apache-2.0
#include "api/body.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace ty;
using namespace ty::api;

namespace {

class Text final : public http::BodyReader {
public:
    explicit Text(std::string text) : text_(std::move(text)) {}
    std::size_t read(std::span<std::byte> into) override {
        const std::size_t count = std::min({into.size(), text_.size() - at_, std::size_t(3)});
        std::memcpy(into.data(), text_.data() + at_, count);
        at_ += count;
        return count;
    }
    std::optional<std::uint64_t> length() const override { return text_.size(); }

private:
    std::string text_;
    std::size_t at_ = 0;
};

/// "hello hello hello hello" by gzip -n.
std::string packed() {
    return from_base64("H4sIAAAAAAACA8tIzcnJV8hAJwHjUT2NFwAAAA==").value();
}

}  // namespace

TEST_CASE("gzip bodies are unpacked, others left alone, bombs and rubbish refused") {
    CHECK(unpack_body(packed(), "gzip", Bytes(100)) == "hello hello hello hello");
    CHECK(unpack_body("{}", "", Bytes(100)) == "{}");
    CHECK(unpack_body("{}", "aws-chunked", Bytes(100)) == "{}");
    CHECK_THROWS_AS(unpack_body(packed(), "gzip", Bytes(10)), Error);
    CHECK_THROWS_AS(unpack_body("rubbish", "gzip", Bytes(100)), Error);
    CHECK_THROWS_AS(unpack_body(packed().substr(0, 15), "gzip", Bytes(100)), Error);
}

TEST_CASE("a hashed body passes bytes and refuses others than were signed") {
    for (const bool same : {true, false}) {
        Text text("hello world");
        HashedBody body(text, to_upper(sha256_hex(same ? "hello world" : "hello earth")));
        std::string seen;
        std::string reason;
        try {
            std::array<std::byte, 8> buffer{};
            while (seen.size() < 11)
                seen.append(reinterpret_cast<const char*>(buffer.data()), body.read(buffer));
            CHECK(body.read(buffer) == 0);
        } catch (const Error& error) {
            reason = error.reason();
        }
        CHECK(reason == (same ? "" : "XAmzContentSHA256Mismatch"));
        if (same) CHECK(seen == "hello world");
    }
    Text empty("");
    HashedBody body(empty, sha256_hex("x"));
    std::array<std::byte, 8> buffer{};
    CHECK_THROWS_AS(body.read(buffer), Error);
}
