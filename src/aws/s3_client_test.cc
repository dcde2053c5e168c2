// SPDX-License-Identifier: Apache-2.0
// S3Client against a small S3 of our own over loopback: every request's signature is verified, and
// the server can be told to fail in the ways networks do.
#include "aws/aws.h"
#include "base/hash.h"
#include "base/sync.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <map>

using namespace ty;
using namespace ty::aws;

namespace {

const Credentials kKeys{"AKIATEST", "secret", "token"};

std::string md5_hex(std::string_view text) {
    Hasher hasher(HashKind::md5);
    hasher.update(text);
    return to_hex(as_bytes(hasher.finish()));
}

std::string bytes_to_text(std::span<const std::byte> data) {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
}

class SmallS3 {
public:
    struct State {
        std::map<std::string, std::string> objects;  // "/bucket/key" decoded
        std::map<int, std::string> parts;
        std::map<std::string, std::string> etags;  // of multipart objects
        std::vector<std::string> log;              // "GET /b/k?query"
        std::vector<int> fail_with;                // statuses for the next requests
        std::string lose_answer_to;  // POST whose effect happens and whose answer is a 503
        std::size_t page = 1000, cut_get_at = 0;
        int refused = 0;
        bool cannot_copy = false;
    };
    Sync<State> state;

    SmallS3()
        : server_(sys::Listener::tcp("127.0.0.1", 0),
                  [this](http::Request& request) { return handle(request); }) {}

    http::Url url() const { return {"http", "127.0.0.1", server_.port(), ""}; }
    void put(const std::string& path, std::string body) {
        state.with([&](State& s) { s.objects[path] = std::move(body); });
    }

private:
    static http::Response reply(int status, std::string body = {}) {
        http::Response response;
        response.status = status;
        response.body = std::move(body);
        return response;
    }
    static http::Response fault(int status, std::string_view code) {
        XmlWriter xml;
        xml.open("Error").element("Code", code).element("Message", "told to");
        return reply(status, std::move(xml).finish());
    }

    http::Response handle(http::Request& request) {
        const std::string body = request.body->read_all(Bytes(64u << 20));
        const auto keys = [](const std::string& key) {
            return key == kKeys.access_key ? std::optional(kKeys) : std::nullopt;
        };
        try {
            verify(request, "", keys, SystemClock().now());
        } catch (const Error& error) {
            state.with([](State& s) { ++s.refused; });
            return fault(403, error.reason());
        }
        return state.with([&](State& s) { return answer(s, request, body); });
    }

    http::Response answer(State& s, const http::Request& request, const std::string& body) {
        s.log.push_back(request.method + ' ' + request.path +
                        (request.query.empty() ? "" : '?' + request.query));
        if (!s.fail_with.empty()) {
            const int status = s.fail_with.front();
            s.fail_with.erase(s.fail_with.begin());
            return status == 507 ? fault(507, "InsufficientStorage")
                                 : fault(status, "InternalError");
        }
        const std::string path = percent_decode(request.path).value();
        std::map<std::string, std::string> query;
        for (auto& [name, value] : parse_query(request.query)) query[name] = value;
        if (query.contains("list-type")) return list(s, path, query);
        if (request.method == "POST" && query.contains("uploads"))
            return reply(200,
                         "<InitiateMultipartUploadResult><UploadId>u&amp;1</UploadId></"
                         "InitiateMultipartUploadResult>");
        if (request.headers.find("x-amz-copy-source")) return copy(s, request, path, query);
        if (query.contains("uploadId")) return multipart(s, request, path, query, body);
        if (request.method == "PUT") return store(s, request, path, body);
        if (request.method == "DELETE") {
            s.objects.erase(path);
            return reply(204);
        }
        return fetch(s, request, path);
    }

    static http::Response copy(State& s, const http::Request& request, const std::string& path,
                               std::map<std::string, std::string>& query) {
        if (s.cannot_copy) return fault(501, "NotImplemented");
        const auto found =
            s.objects.find(percent_decode(request.headers.get("x-amz-copy-source")).value_or(""));
        if (found == s.objects.end()) return fault(404, "NoSuchKey");
        if (const auto wanted = request.headers.find("x-amz-copy-source-if-match");
            wanted && *wanted != '"' + md5_hex(found->second) + '"')
            return fault(412, "PreconditionFailed");
        std::string body = found->second;
        if (const auto range = request.headers.find("x-amz-copy-source-range")) {
            const std::string text(*range);
            const auto dash = text.find('-');
            const auto first = std::size_t(parse_int(text.substr(6, dash - 6)).value());
            const auto last = std::size_t(parse_int(text.substr(dash + 1)).value());
            body = body.substr(first, last - first + 1);
        }
        const std::string etag = "<ETag>&quot;" + md5_hex(body) + "&quot;</ETag>";
        if (query.contains("partNumber")) {
            s.parts[int(parse_int(query["partNumber"]).value())] = std::move(body);
            return reply(200, "<CopyPartResult>" + etag + "</CopyPartResult>");
        }
        s.objects[path] = std::move(body);
        if (s.lose_answer_to == path) {
            s.lose_answer_to.clear();
            return reply(200, "<Error><Code>InternalError</Code></Error>");
        }
        return reply(200, "<CopyObjectResult>" + etag + "</CopyObjectResult>");
    }

    static http::Response store(State& s, const http::Request& request, const std::string& path,
                                const std::string& body) {
        Hasher hasher(HashKind::crc32);
        hasher.update(body);
        if (request.headers.get("x-amz-checksum-crc32") != to_base64(as_bytes(hasher.finish())))
            return fault(400, "BadDigest");
        s.objects[path] = body;
        return reply(200);
    }

    http::Response fetch(State& s, const http::Request& request, const std::string& path) {
        const auto found = s.objects.find(path);
        if (found == s.objects.end())
            return request.method == "HEAD" ? reply(404) : fault(404, "NoSuchKey");
        const auto known = s.etags.find(path);
        const std::string etag =
            '"' + (known != s.etags.end() ? known->second : md5_hex(found->second)) + '"';
        if (const auto wanted = request.headers.find("if-match"); wanted && *wanted != etag)
            return fault(412, "PreconditionFailed");
        http::Response response;
        response.headers.set("ETag", etag);
        if (request.method == "HEAD") {
            response.head_only = true;
            response.headers.set("Content-Length", std::to_string(found->second.size()));
            return response;
        }
        const std::string range(request.headers.get("range"));
        const auto dash = range.find('-');
        const auto first = std::size_t(parse_int(range.substr(6, dash - 6)).value());
        const auto last = std::size_t(parse_int(range.substr(dash + 1)).value());
        response.status = 206;
        response.body = found->second.substr(first, last - first + 1);
        if (s.cut_get_at > 0 && response.body.size() > s.cut_get_at)
            response.body.resize(s.cut_get_at);
        return response;
    }

    static http::Response list(State& s, const std::string& path,
                               std::map<std::string, std::string>& query) {
        const std::string front = path + '/';
        XmlWriter xml;
        xml.open("ListBucketResult").element("EncodingType", "url");
        std::size_t count = 0;
        std::string last;
        bool truncated = false;
        for (const auto& [name, body] : s.objects) {
            if (!name.starts_with(front + query["prefix"])) continue;
            if (query.contains("continuation-token") && name <= query["continuation-token"])
                continue;
            if (count == s.page) {
                truncated = true;
                break;
            }
            ++count;
            last = name;
            xml.open("Contents")
                .element("Key", replace_all(percent_encode(name.substr(front.size()), Slash::keep),
                                            "%20", "+"));
            xml.element("Size", body.size()).element("ETag", '"' + md5_hex(body) + '"').close();
        }
        xml.element("IsTruncated", truncated);
        if (truncated) xml.element("NextContinuationToken", last);
        return reply(200, std::move(xml).finish());
    }

    static http::Response multipart(State& s, const http::Request& request, const std::string& path,
                                    std::map<std::string, std::string>& query,
                                    const std::string& body) {
        if (query["uploadId"] != "u&1") return fault(404, "NoSuchUpload");
        if (request.method == "PUT") {
            s.parts[int(parse_int(query["partNumber"]).value())] = body;
            http::Response response;
            response.headers.set("ETag", '"' + md5_hex(body) + '"');
            return response;
        }
        if (request.method == "DELETE")
            return s.parts.empty() ? fault(404, "NoSuchUpload") : (s.parts.clear(), reply(204));
        if (s.parts.empty()) return fault(404, "NoSuchUpload");
        std::string whole;
        Hasher hasher(HashKind::md5);
        for (const auto& [number, part] : s.parts) {
            whole += part;
            hasher.update(from_hex(md5_hex(part)).value());
        }
        s.etags[path] = to_hex(as_bytes(hasher.finish())) + '-' + std::to_string(s.parts.size());
        s.objects[path] = whole;
        s.parts.clear();
        if (s.lose_answer_to == path)
            return reply(200, "<Error><Code>InternalError</Code></Error>");
        return reply(200, "<CompleteMultipartUploadResult/>");
    }

    http::Server server_;
};

struct Fixture {
    SmallS3 s3;
    SystemClock clock;
    S3Client client{s3.url(), kKeys, "us-east-1", clock};
    Deadline by = Deadline::in(seconds(20));
    std::stop_token stop;
};

template <typename Fn>
std::string reason_of(Fn&& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.reason();
    }
    return "";
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "what was put is listed, found and read, whatever the key looks like") {
    const std::string keys[] = {"a/plain.txt", "a/with space+plus&amp;<x>.txt",
                                "a/\xE4\xB8\xAD\xE6\x96\x87%2F~", "b"};
    for (const std::string& key : keys) client.put("bucket", key, "body of " + key, by, stop);
    const auto listed = client.list("bucket", "a/", by, stop);
    REQUIRE(listed.size() == 3);
    CHECK(listed[0].key == keys[0]);
    CHECK(listed[0].size == std::string("body of a/plain.txt").size());
    for (const std::string& key : keys) {
        const auto head = client.head("bucket", key, by, stop);
        REQUIRE(head.has_value());
        std::string body;
        client.get(
            "bucket", key, 0, head->size, head->etag,
            [&](std::span<const std::byte> d) { body += bytes_to_text(d); }, by, stop);
        CHECK(body == "body of " + key);
    }
    CHECK(s3.state.with([](SmallS3::State& s) { return s.refused; }) == 0);
}

TEST_CASE_FIXTURE(Fixture, "pages of a listing are followed") {
    for (int i = 0; i < 25; ++i) s3.put(format("/bucket/p/{:03}", i), "x");
    s3.state.with([](SmallS3::State& s) { s.page = 10; });
    const auto listed = client.list("bucket", "p/", by, stop);
    REQUIRE(listed.size() == 25);
    CHECK(listed.back().key == "p/024");
}

TEST_CASE_FIXTURE(Fixture, "absence is no error to head and a named one to get") {
    CHECK_FALSE(client.head("bucket", "none", by, stop));
    CHECK(reason_of([&] {
              client.get(
                  "bucket", "none", 0, 1, "", [](auto) {}, by, stop);
          }) == "NoSuchKey");
}

TEST_CASE_FIXTURE(Fixture, "a range is read exactly and a replaced object is noticed") {
    s3.put("/bucket/k", "0123456789");
    std::string body;
    const auto take = [&](std::span<const std::byte> d) { body += bytes_to_text(d); };
    client.get("bucket", "k", 3, 4, md5_hex("0123456789"), take, by, stop);
    CHECK(body == "3456");
    client.get("bucket", "k", 3, 0, "", take, by, stop);
    CHECK(body == "3456");
    CHECK(reason_of([&] { client.get("bucket", "k", 0, 4, md5_hex("older"), take, by, stop); }) ==
          "PreconditionFailed");
}

TEST_CASE_FIXTURE(Fixture, "a transfer that breaks off goes on behind the last byte") {
    std::string content;
    for (int i = 0; i < 1000; ++i) content += std::to_string(i) + ' ';
    s3.put("/bucket/k", content);
    s3.state.with([](SmallS3::State& s) { s.cut_get_at = 1500; });
    std::string body;
    client.get(
        "bucket", "k", 0, content.size(), md5_hex(content),
        [&](std::span<const std::byte> d) { body += bytes_to_text(d); }, by, stop);
    CHECK(body == content);
}

TEST_CASE_FIXTURE(Fixture, "failing servers are asked again, full disks and refusals are not") {
    s3.state.with([](SmallS3::State& s) { s.fail_with = {500, 503}; });
    client.put("bucket", "k", "body", by, stop);
    CHECK(s3.state.with([](SmallS3::State& s) { return s.log.size(); }) == 3);
    s3.state.with([](SmallS3::State& s) { s.fail_with = {507}; });
    CHECK(reason_of([&] { client.put("bucket", "k", "body", by, stop); }) == "InsufficientStorage");
    S3Client stranger(s3.url(), {"AKIATEST", "wrong", "token"}, "us-east-1", clock);
    CHECK(reason_of([&] { stranger.put("bucket", "k", "body", by, stop); }) ==
          "SignatureDoesNotMatch");
}

TEST_CASE_FIXTURE(Fixture, "the deadline ends the repeating with the last failure") {
    s3.state.with([](SmallS3::State& s) { s.fail_with.assign(1000, 500); });
    CHECK(reason_of([&] {
              client.put("bucket", "k", "body", Deadline::in(milliseconds(300)), stop);
          }) == "InternalError");
}

TEST_CASE_FIXTURE(Fixture, "a stop request ends the repeating") {
    s3.state.with([](SmallS3::State& s) { s.fail_with.assign(1000, 500); });
    std::stop_source source;
    source.request_stop();
    try {
        client.put("bucket", "k", "body", by, source.get_token());
        FAIL("was not stopped");
    } catch (const Error& error) {
        CHECK(error.code() == Code::cancelled);
    }
}

TEST_CASE_FIXTURE(Fixture, "a multipart upload is completed, or aborted twice") {
    const std::string upload = client.start_upload("bucket", "big", by, stop);
    CHECK(upload == "u&1");
    std::vector<std::string> etags{client.put_part("bucket", "big", upload, 1, "first", by, stop),
                                   client.put_part("bucket", "big", upload, 2, "second", by, stop)};
    CHECK(etags[0] == md5_hex("first"));
    client.complete_upload("bucket", "big", upload, etags, by, stop);
    CHECK(s3.state.with([](SmallS3::State& s) { return s.objects["/bucket/big"]; }) ==
          "firstsecond");
    client.abort_upload("bucket", "big", upload, by, stop);
    CHECK(reason_of([&] { client.complete_upload("bucket", "big", upload, etags, by, stop); }) ==
          "NoSuchUpload");
}

TEST_CASE_FIXTURE(
    Fixture,
    "a completed upload whose answer was lost counts as completed, another object does not") {
    s3.state.with([](SmallS3::State& s) { s.lose_answer_to = "/bucket/big"; });
    const std::string upload = client.start_upload("bucket", "big", by, stop);
    const std::vector<std::string> etags{
        client.put_part("bucket", "big", upload, 1, "only", by, stop)};
    client.complete_upload("bucket", "big", upload, etags, by, stop);
    CHECK(s3.state.with([](SmallS3::State& s) { return s.objects["/bucket/big"]; }) == "only");
    // The same loss, and somebody else's object under the key.
    s3.state.with([](SmallS3::State& s) { s.fail_with = {500}; });
    CHECK(reason_of([&] {
              client.complete_upload("bucket", "big", upload, {md5_hex("other")}, by, stop);
          }) == "NoSuchUpload");
}

TEST_CASE_FIXTURE(Fixture, "objects and ranges of them are copied where they lie, and removed") {
    s3.put("/bucket/a b+%", "0123456789");
    client.copy("bucket", "a b+%", md5_hex("0123456789"), "other", "c", by, stop);
    s3.state.with([](SmallS3::State& s) {
        CHECK(s.objects["/other/c"] == "0123456789");
        s.lose_answer_to = "/other/d";
    });
    client.copy("bucket", "a b+%", "", "other", "d", by, stop);
    CHECK(reason_of([&] { client.copy("bucket", "a b+%", "old", "other", "e", by, stop); }) ==
          "PreconditionFailed");
    const std::string upload = client.start_upload("bucket", "joined", by, stop);
    const std::vector<std::string> etags{
        client.put_part_copy("bucket", "joined", upload, 1,
                             {"bucket", "a b+%", md5_hex("0123456789"), 2, 5}, by, stop),
        client.put_part("bucket", "joined", upload, 2, "!", by, stop)};
    client.complete_upload("bucket", "joined", upload, etags, by, stop);
    s3.state.with([](SmallS3::State& s) {
        CHECK(s.objects["/bucket/joined"] == "23456!");
        CHECK(s.objects["/other/d"] == "0123456789");
        s.cannot_copy = true;
    });
    try {
        client.copy("bucket", "a b+%", "", "other", "f", by, stop);
        FAIL("was copied");
    } catch (const Error& error) {
        CHECK(error.code() == Code::unsupported);
    }
    client.remove("other", "c", by, stop);
    client.remove("other", "c", by, stop);
    CHECK_FALSE(client.head("other", "c", by, stop));
}

TEST_CASE_FIXTURE(Fixture, "a gate that says unavailable holds requests back") {
    int asked = 0;
    client.set_gate([&] {
        if (++asked < 3) throw_error(Code::unavailable, "", "the network is cut");
    });
    client.put("bucket", "k", "body", by, stop);
    CHECK(s3.state.with([](SmallS3::State& s) { return s.log.size(); }) == 1);
}
