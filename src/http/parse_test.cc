// SPDX-License-Identifier: Apache-2.0
#include "http/parse.h"

#include "base/error.h"
#include "http/chunked.h"

#include <doctest/doctest.h>

#include <string>

using namespace ty;
using namespace ty::http;

namespace {

int status_of(std::string_view head, std::size_t count = 10) {
    RequestHead out;
    const auto refusal = parse_request_head(head, count, out);
    return refusal ? refusal->status : 200;
}

RequestHead parsed(std::string_view head) {
    RequestHead out;
    const auto refusal = parse_request_head(head, 100, out);
    INFO(std::string(refusal ? refusal->text : ""));
    REQUIRE_FALSE(refusal);
    return out;
}

/// Decodes with every split of the input into pieces of `step` bytes.
std::string dechunk(std::string_view coded, std::size_t step, std::size_t out_step) {
    ChunkDecoder decoder;
    std::string result;
    std::string out(out_step, '\0');
    for (std::size_t at = 0; at < coded.size() && !decoder.done();) {
        const std::string_view piece = coded.substr(at, step);
        const auto done = decoder.decode(std::as_bytes(std::span(piece.data(), piece.size())),
                                         std::as_writable_bytes(std::span(out)));
        at += done.consumed;
        result.append(out, 0, done.produced);
    }
    return decoder.done() ? result : result + "<unfinished>";
}

bool chunking_is_refused(std::string_view coded) {
    try {
        dechunk(coded, 1, 10);
    } catch (const Error& error) {
        return error.code() == Code::invalid;
    }
    return false;
}

}  // namespace

TEST_CASE("the end of a head is found however it arrives") {
    const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    CHECK(find_head_end(head) == head.size() - 4);
    for (std::size_t cut = 0; cut < head.size() - 4; ++cut) {
        CHECK_FALSE(find_head_end(std::string_view(head).substr(0, cut)));
        CHECK(find_head_end(head, cut) == head.size() - 4);
    }
    CHECK(find_head_end("GET / HTTP/1.1\nHost: a\n\n") == 24);
}

TEST_CASE("a request head gives method, path, query and headers as they were sent") {
    const RequestHead head = parsed(
        "PUT /b/a%20b?x=1&y=%2F?z HTTP/1.1\r\nHost: h:1\r\nX-Odd:\t two  words \r\nx-odd: b\r\n"
        "Content-Length: 12\r\nExpect: 100-Continue\r\n\r\n");
    CHECK(head.method == "PUT");
    CHECK(head.path == "/b/a%20b");
    CHECK(head.query == "x=1&y=%2F?z");
    CHECK(head.headers.get("HOST") == "h:1");
    CHECK(head.headers.get("x-ODD") == "two  words");
    CHECK(head.framing.kind == Framing::Kind::length);
    CHECK(head.framing.length == 12);
    CHECK(head.expects_continue);
    CHECK(head.keep_alive);
}

TEST_CASE("targets in the form sent to proxies lose their scheme and host") {
    const RequestHead head =
        parsed("GET http://sts.example:80/a?b HTTP/1.1\r\nHost: other\r\n\r\n");
    CHECK(head.path == "/a");
    CHECK(head.query == "b");
    CHECK(head.headers.get("Host") == "other");
    const RequestHead bare = parsed("POST https://sts.example?b=1 HTTP/1.1\r\n\r\n");
    CHECK(bare.path == "/");
    CHECK(bare.query == "b=1");
    CHECK(bare.headers.get("Host") == "sts.example");
    CHECK(parsed("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n").authority == "h:443");
}

TEST_CASE("connections persist by version and Connection header") {
    CHECK_FALSE(parsed("GET / HTTP/1.0\r\n\r\n").keep_alive);
    CHECK(parsed("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
    CHECK_FALSE(parsed("GET / HTTP/1.1\r\nHost: a\r\nConnection: te, CLOSE\r\n\r\n").keep_alive);
    CHECK_FALSE(parsed("PUT / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expects_continue);
}

TEST_CASE("heads that two parties could read differently are refused") {
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n") == 400);
    CHECK(
        status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n") ==
        400);
    CHECK(
        status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n") ==
        200);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1,1\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n") ==
          400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n") ==
          501);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost : a\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\nHost: a\n\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n") == 400);
    CHECK(status_of(std::string_view("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 30)) == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n") == 400);
}

TEST_CASE("malformed, foreign and oversized heads each have their status") {
    CHECK(status_of("GET /\r\n\r\n") == 400);
    CHECK(status_of("GET  HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
    CHECK(status_of("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
    CHECK(status_of("G@T / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
    CHECK(status_of("GET relative HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
    CHECK(status_of("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
    CHECK(status_of("PRI * HTTP/2.0\r\n\r\n") == 505);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n") == 417);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n", 3) == 200);
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n", 2) == 431);
    CHECK(status_of("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n") == 200);
}

TEST_CASE("response heads are read and their framing known") {
    ResponseHead head;
    CHECK_FALSE(parse_response_head("HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", 10, head));
    CHECK(head.framing.length == 3);
    CHECK(head.keep_alive);
    head = {};
    CHECK_FALSE(parse_response_head("HTTP/1.1 500 Very Bad\r\n\r\n", 10, head));
    CHECK(head.framing.kind == Framing::Kind::until_close);
    CHECK_FALSE(head.keep_alive);
    head = {};
    CHECK_FALSE(parse_response_head("HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", 10, head));
    CHECK(head.framing.kind == Framing::Kind::none);
    for (const char* bad :
         {"HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n",
          "HTTP/1.1 099 x\r\n\r\n", "ICY 200 OK\r\n\r\n"}) {
        CAPTURE(bad);
        ResponseHead out;
        CHECK(parse_response_head(bad, 10, out));
    }
}

TEST_CASE("chunked bodies decode the same however they are cut") {
    const std::string coded =
        "4\r\nWiki\r\n6;name=\"v\"\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n0\r\nX-Sum: "
        "1\r\n\r\nNEXT";
    for (std::size_t step = 1; step < coded.size() + 1; ++step) {
        for (const std::size_t out_step : {1, 3, 100}) {
            CHECK(dechunk(coded, step, static_cast<std::size_t>(out_step)) ==
                  "Wikipedia in \r\n\r\nchunks.");
        }
    }
    ChunkDecoder decoder;
    std::byte out[100];
    CHECK(decoder.decode(std::as_bytes(std::span(coded)), out).consumed == coded.size() - 4);
}

TEST_CASE("broken chunking is refused, not guessed at") {
    for (const char* bad :
         {"\r\n", "g\r\n", "4\nWiki", "4\r\nWikiX", "4\r\nWiki\n", "4 x\n", "-1\r\n", "0x4\r\n",
          "1000000000000000\r\n", "0\r\nA: b\n\r\n", "0\r\n\n", "4;a\nb\r\n", "4\rX"}) {
        CAPTURE(bad);
        CHECK(chunking_is_refused(bad));
    }
    CHECK(chunking_is_refused("4;" + std::string(9000, 'x')));
    CHECK(chunking_is_refused("0\r\n" + std::string(9000, 'x')));
    CHECK(dechunk("4\r\nWik", 1, 10) == "Wik<unfinished>");
}

TEST_CASE("hosts with ports are taken apart strictly") {
    CHECK(parse_host_port("Sts.Example:443")->host == "sts.example");
    CHECK(parse_host_port("[::1]:8443")->host == "::1");
    CHECK(parse_host_port("[::1]:8443")->port == 8443);
    for (const char* bad : {"", "host", "host:", ":443", "host:0", "host:65536", "a,DNS=b:443",
                            "a b:1", "[g]:1", "host:4x", "[]:1"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_host_port(bad));
    }
}

TEST_CASE("URLs of servers are parsed, others are refused with their text") {
    const Url url = parse_url("http://Host:8080/prefix/");
    CHECK(url.host == "host");
    CHECK(url.port == 8080);
    CHECK(url.path == "/prefix");
    CHECK(parse_url("https://h").port == 443);
    CHECK(parse_url("http://[::1]").host == "::1");
    CHECK(parse_url("http://[::1]:81/").port == 81);
    for (const char* bad :
         {"", "host:80", "ftp://h", "http://", "http://u:p@h", "http://h/?q", "http://h:99999"}) {
        CAPTURE(bad);
        try {
            parse_url(bad);
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.code() == Code::invalid);
            CHECK(error.message().find(bad) != std::string::npos);
        }
    }
}
