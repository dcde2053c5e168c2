// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/text.h"
#include "base/time.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;

TEST_CASE("an error passing a border gains one line of context") {
    const auto outcome = capture([] {
        in_context("staging channel train",
                   [] { throw_error(Code::not_found, "NoSuchKey", "no {}", "x"); });
    });
    REQUIRE_FALSE(outcome.ok());
    CHECK(std::string(outcome.error().what()) == "staging channel train: no x");
    CHECK(outcome.error().reason() == "NoSuchKey");
}

TEST_CASE("errno becomes a code a caller can act on") {
    CHECK(errno_error(ENOSPC, "write x").code() == Code::exhausted);
    CHECK(errno_error(ENOENT, "open x").message() == "open x: No such file or directory");
}

TEST_CASE("times round-trip in every wire form") {
    const Instant t = from_epoch_millis(1'762'116'564'123);
    CHECK(format_iso8601(t) == "2025-11-02T20:49:24.123Z");
    CHECK(parse_iso8601("2025-11-02T20:49:24.123Z") == t);
    CHECK(parse_iso8601("2025-11-02T21:49:24.123+01:00") == t);
    CHECK(format_http_date(t) == "Sun, 02 Nov 2025 20:49:24 GMT");
    CHECK(parse_http_date("Sun, 02 Nov 2025 20:49:24 GMT") == std::chrono::floor<seconds>(t));
    CHECK(parse_amz_date(format_amz_date(t)) == std::chrono::floor<seconds>(t));
    CHECK_FALSE(parse_iso8601("2025-13-02T20:49:24Z").has_value());
    CHECK_FALSE(parse_amz_date("20250101T000000").has_value());
}

TEST_CASE("digests match the published test vectors") {
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const auto check = [](HashKind kind, std::string_view text) {
        Hasher hasher(kind);
        hasher.update(text.substr(0, 3));
        hasher.update(text.substr(3));
        return to_hex(as_bytes(hasher.finish()));
    };
    CHECK(check(HashKind::crc32, "123456789") == "cbf43926");
    CHECK(check(HashKind::crc32c, "123456789") == "e3069283");
    CHECK(check(HashKind::crc64nvme, "123456789") == "ae8b14860a799888");
    CHECK(check(HashKind::md5, "123456789") == "25f9e794323b453885f5181f1b624d0b");
    // RFC 4231, test case 2
    CHECK(to_hex(hmac_sha256(as_bytes("Jefe"), "what do ya want for nothing?")) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("base64 and percent-coding are inverse and strict") {
    for (const std::string text : {"", "a", "ab", "abc", "abcd"})
        CHECK(from_base64(to_base64(as_bytes(text))) == text);
    CHECK_FALSE(from_base64("ab=c").has_value());
    CHECK(percent_encode("a b/ü", Slash::keep) == "a%20b/%C3%BC");
    CHECK(percent_decode("a%20b") == "a b");
    CHECK_FALSE(percent_decode("%2").has_value());
    CHECK(parse_query("a=1&b=x+y&c").size() == 3);
}

TEST_CASE("text is cut between code points, never inside one") {
    CHECK(truncate_utf8("aüb", 2) == "aü");
    CHECK(count_code_points("aüb") == 3);
    CHECK(to_valid_utf8("a\xff") == "a\xEF\xBF\xBD");
    CHECK_FALSE(is_valid_utf8("\xed\xa0\x80"));
}

TEST_CASE("JSON keeps member order and refuses duplicates and deep nesting") {
    CHECK(dump_json(parse_json(R"({"b":1,"a":2})")) == R"({"b":1,"a":2})");
    CHECK_THROWS_AS(parse_json(R"({"a":1,"a":2})"), Error);
    CHECK_THROWS_AS(parse_json(std::string(100, '[') + std::string(100, ']')), Error);
    CHECK_THROWS_AS(parse_json("{"), Error);
}

TEST_CASE("the nearest names come first") {
    const std::vector<std::string> names = {"pytorch", "tensorflow", "xgboost"};
    CHECK(nearest("pytorhc", names, 1) == std::vector<std::string>{"pytorch"});
}

TEST_CASE("a task group joins its threads and refuses new ones afterwards") {
    Sync<int> count(0);
    TaskGroup group;
    group.start("one", [&](std::stop_token) { count.with([](int& n) { ++n; }); });
    group.stop_and_join();
    CHECK(count.with([](int& n) { return n; }) == 1);
    CHECK_THROWS_AS(group.start("two", [](std::stop_token) {}), Error);
}

TEST_CASE("sizes read as people write them") {
    CHECK(to_string(Bytes(812)) == "812 B");
    CHECK(to_string(Bytes(64 << 20)) == "64.0 MiB");
}

TEST_CASE("seeded identifiers repeat, system ones do not") {
    SeededIds a(7), b(7);
    CHECK(a.uuid() == b.uuid());
    SystemIds ids;
    CHECK(ids.token(20) != ids.token(20));
    CHECK(ids.token(20).size() == 20);
}
