// SPDX-License-Identifier: Apache-2.0
#include "objects/ingest.h"
#include "objects/testing.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <csignal>
#include <random>
#include <thread>

using namespace ty;
using namespace ty::objects;

namespace {
const std::string kBig = pattern(700'000, 1);
}

TEST_CASE("an object comes back as it was put, small or large, with its attributes") {
    Scratch s;
    s.store.create_bucket("bucket", "eu-west-1");
    for (const std::size_t size :
         {std::size_t(0), std::size_t(1), kInlineLimit, kInlineLimit + 1, std::size_t(256 * 1024),
          std::size_t(256 * 1024 + 1), std::size_t(600'000)}) {
        const std::string text = pattern(size, size);
        Attributes attributes;
        attributes.content_type = "text/plain";
        attributes.headers["x-amz-server-side-encryption"] = "aws:kms";
        attributes.metadata["color"] = "blue \"ü\"";
        attributes.tags["a"] = "b";
        Expectation expected;
        expected.size = size;
        expected.checksums["crc32"] = base64_digest(HashKind::crc32, text);
        expected.checksums["crc64nvme"] = "";
        expected.checksums["md5"] = base64_digest(HashKind::md5, text);
        expected.sha256_hex = sha256_hex(text);
        const auto put =
            s.store.put("bucket", "a/ü b", attributes, source_of(text, 1000), expected);
        CHECK(put.etag == md5_hex(text));

        const auto found = s.store.find("bucket", "a/ü b");
        REQUIRE(found);
        CHECK(found->size == size);
        CHECK(found->etag == put.etag);
        CHECK(found->attributes.content_type == "text/plain");
        CHECK(found->attributes.headers == attributes.headers);
        CHECK(found->attributes.metadata == attributes.metadata);
        CHECK(found->attributes.tags == attributes.tags);
        CHECK(found->attributes.checksum_type == "FULL_OBJECT");
        CHECK(found->attributes.checksums.size() == 2);
        CHECK(found->attributes.checksums.at("crc64nvme") ==
              base64_digest(HashKind::crc64nvme, text));
        CHECK(content(s.store, "bucket", "a/ü b") == text);
    }
    CHECK(s.files() == 1);
}

TEST_CASE("what does not hash to its declaration, or ends early, is refused and leaves nothing") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    for (const std::string& text : {std::string("short"), kBig}) {
        const auto put = [&](Expectation expected) {
            return reason_of([&] { s.store.put("bucket", "k", {}, source_of(text), expected); });
        };
        CHECK(put({.checksums = {{"crc32", "AAAAAA=="}}}) == "BadDigest");
        CHECK(put({.checksums = {{"md5", base64_digest(HashKind::md5, "other")}}}) == "BadDigest");
        CHECK(put({.checksums = {{"sha1", ""}}, .trailing = [] {
                       return std::map<std::string, std::string>{{"sha1", "nonsense"}};
                   }}) == "BadDigest");
        CHECK(put({.trailing = [] {
                  return std::map<std::string, std::string>{{"sha1", "unannounced"}};
              }}) == "BadDigest");
        CHECK(put({.sha256_hex = sha256_hex("other")}) == "XAmzContentSHA256Mismatch");
        CHECK(put({.size = text.size() + 1}) == "IncompleteBody");
        CHECK(put({.size = text.size() - 1}) == "IncompleteBody");
        CHECK(put({.checksums = {{"crc99", ""}}}) == "InvalidRequest");
        CHECK_FALSE(s.store.find("bucket", "k"));
    }
    const auto broken = [n = 0](std::span<std::byte> into) mutable -> std::size_t {
        if (++n == 4) throw_error(Code::unavailable, "Gone", "the client hung up");
        return into.size();
    };
    CHECK(reason_of([&] { s.store.put("bucket", "k", {}, broken); }) == "Gone");
    CHECK(s.files() == 0);
}

TEST_CASE("buckets are made once, counted as not empty, and named by rules") {
    Scratch s;
    s.store.create_bucket("my-bucket.1", "cn-north-1");
    CHECK(s.store.find_bucket("my-bucket.1")->region == "cn-north-1");
    CHECK_FALSE(s.store.find_bucket("other"));
    CHECK(reason_of([&] { s.store.create_bucket("my-bucket.1", "us-east-1"); }) ==
          "BucketAlreadyOwnedByYou");
    for (const std::string& bad :
         {std::string("ab"), std::string(64, 'a'), std::string("Upper"), std::string("a_b"),
          std::string("-ab"), std::string("ab-"), std::string("a..b"), std::string("10.0.0.1"),
          std::string("../etc"), std::string()})
        CHECK(reason_of([&] { s.store.create_bucket(bad, "r"); }) == "InvalidBucketName");
    s.store.put("my-bucket.1", "k", {}, source_of("x"));
    CHECK(reason_of([&] { s.store.delete_bucket("my-bucket.1"); }) == "BucketNotEmpty");
    s.store.remove("my-bucket.1", "k");
    s.store.delete_bucket("my-bucket.1");
    CHECK(reason_of([&] { s.store.delete_bucket("my-bucket.1"); }) == "NoSuchBucket");
    CHECK(s.store.list_buckets().empty());
}

TEST_CASE("missing things are named, and a missing bucket is told before a byte is read") {
    Scratch s;
    bool read = false;
    const auto source = [&](std::span<std::byte>) -> std::size_t {
        read = true;
        return 0;
    };
    CHECK(reason_of([&] { s.store.put("none", "k", {}, source); }) == "NoSuchBucket");
    CHECK_FALSE(read);
    CHECK(reason_of([&] { s.store.find("none", "k"); }) == "NoSuchBucket");
    s.store.create_bucket("bucket", "us-east-1");
    CHECK(reason_of([&] { s.store.open("bucket", "k"); }) == "NoSuchKey");
    CHECK(reason_of([&] { s.store.copy("bucket", "k", "bucket", "l", {}); }) == "NoSuchKey");
    CHECK(reason_of([&] { s.store.set_tags("bucket", "k", {}); }) == "NoSuchKey");
    CHECK(reason_of([&] { s.store.put("bucket", std::string(1025, 'k'), {}, source); }) ==
          "KeyTooLongError");
    CHECK(reason_of([&] { s.store.put("bucket", "\xff", {}, source); }) == "InvalidArgument");
    s.store.remove("bucket", "never there");
}

TEST_CASE("a reader keeps its version while the key is replaced and deleted") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    for (const std::string& text : {std::string("tiny"), kBig}) {
        s.store.put("bucket", "k", {}, source_of(text));
        const OpenObject open = s.store.open("bucket", "k");
        s.store.put("bucket", "k", {}, source_of(text + text));
        s.store.remove("bucket", "k");
        CHECK(read_all(open.file) == text);
    }
    CHECK(s.files() == 0);
}

TEST_CASE("conditional writes look at what is there") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    const auto put = [&](const Precondition& condition) {
        return reason_of([&] { s.store.put("bucket", "k", {}, source_of("x"), {}, condition); });
    };
    CHECK(put({.if_match = "abc"}) == "NoSuchKey");
    CHECK(put({.if_none_match = true}) == "no error");
    CHECK(put({.if_none_match = true}) == "PreconditionFailed");
    CHECK(put({.if_match = "abc"}) == "PreconditionFailed");
    CHECK(put({.if_match = md5_hex("x")}) == "no error");
}

TEST_CASE("a copy is independent of its source and keeps or replaces the attributes") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    s.store.create_bucket("other", "us-east-1");
    for (const std::string& text : {std::string("tiny"), kBig}) {
        Attributes attributes;
        attributes.content_type = "text/csv";
        s.store.put("bucket", "from", attributes, source_of(text), {.checksums = {{"crc32", ""}}});
        const auto copied = s.store.copy("bucket", "from", "other", "to", {});
        CHECK(copied.etag == md5_hex(text));
        CHECK(s.store.find("other", "to")->attributes.content_type == "text/csv");
        s.store.copy("bucket", "from", "bucket", "from", Attributes{.content_type = "b/c"});
        CHECK(s.store.find("bucket", "from")->attributes.content_type == "b/c");
        CHECK(s.store.find("bucket", "from")->attributes.checksums.contains("crc32"));
        s.store.remove("bucket", "from");
        CHECK(content(s.store, "other", "to") == text);
    }
    CHECK(s.files() == 1);
}

TEST_CASE("tags are replaced without touching the rest") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    const auto put = s.store.put("bucket", "k", {.content_type = "a/b"}, source_of("x"));
    s.store.set_tags("bucket", "k", {{"team", "vision"}});
    const auto found = s.store.find("bucket", "k");
    CHECK(found->attributes.tags.at("team") == "vision");
    CHECK(found->attributes.content_type == "a/b");
    CHECK(found->modified == put.modified);
}

TEST_CASE("a full disk is DiskFull, and the object that was there stays") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    s.store.put("bucket", "k", {}, source_of("old"));
    s.db.write([](store::Tx& tx) { tx.prepare("pragma max_page_count = 1").step(); });
    const std::string text = pattern(kInlineLimit, 3);
    std::string reason;
    for (int i = 0; i < 50 && reason != "DiskFull"; ++i)
        reason = reason_of([&] { s.store.put("bucket", "k", {}, source_of(text)); });
    CHECK(reason == "DiskFull");
    s.db.write([](store::Tx& tx) { tx.prepare("pragma max_page_count = 100000").step(); });
    CHECK(content(s.store, "bucket", "k").size() == s.store.find("bucket", "k")->size);
}

TEST_CASE("concurrent writers and readers of one key see whole versions only") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    s.store.put("bucket", "k", {}, source_of(pattern(30'000, 0)));
    std::atomic<bool> stop = false;
    std::vector<std::jthread> writers;
    for (std::uint64_t t = 0; t < 3; ++t)
        writers.emplace_back([&, t] {
            for (std::uint64_t i = 0; !stop; ++i)
                s.store.put("bucket", "k", {},
                            source_of(pattern(i % 2 == 0 ? 100 : 20'000 + t * 1000, i)));
        });
    int torn = 0;
    for (int i = 0; i < 300; ++i) {
        const OpenObject open = s.store.open("bucket", "k");
        const std::string text = read_all(open.file);
        torn += text.size() != open.info.size || md5_hex(text) != open.info.etag;
    }
    stop = true;
    writers.clear();
    CHECK(torn == 0);
    s.store.remove("bucket", "k");
    CHECK(s.files() == 0);
}

TEST_CASE("random operations leave the store equal to a map") {
    for (const unsigned seed : {1u, 2u, 3u}) {
        Scratch s;
        s.store.create_bucket("bucket", "us-east-1");
        std::map<std::string, std::string> model;
        std::mt19937 random(seed);
        const auto below = [&](unsigned n) { return random() % n; };
        const char* names[] = {"a", "a/b", "a/b/c", "a0", "b", "b/", "b/x", "ü", "z"};
        for (int step = 0; step < 300; ++step) {
            const std::string key = names[below(9)], other = names[below(9)];
            switch (below(6)) {
                case 0:
                case 1: {
                    const std::string text =
                        pattern(below(3) == 0 ? 17'000 + below(9000) : below(99), random());
                    s.store.put("bucket", key, {}, source_of(text));
                    model[key] = text;
                    break;
                }
                case 2:
                    s.store.remove("bucket", key);
                    model.erase(key);
                    break;
                case 3:
                    if (!model.contains(key)) break;
                    s.store.copy("bucket", key, "bucket", other, {});
                    model[other] = std::string(model[key]);
                    break;
                case 4:
                    CHECK(s.store.find("bucket", key).has_value() == model.contains(key));
                    break;
                case 5:
                    if (model.contains(key)) {
                        CHECK(content(s.store, "bucket", key) == model[key]);
                    }
                    break;
            }
        }
        const Listing all = s.store.list("bucket", {});
        REQUIRE(all.objects.size() == model.size());
        std::size_t files = 0;
        for (auto it = model.begin(); const ObjectInfo& info : all.objects) {
            CHECK(info.key == it->first);
            CHECK(info.etag == md5_hex(it->second));
            CHECK(content(s.store, "bucket", info.key) == it->second);
            files += it->second.size() > kInlineLimit;
            ++it;
        }
        CHECK(s.files() == files);
    }
}
