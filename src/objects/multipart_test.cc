// SPDX-License-Identifier: Apache-2.0
#include "objects/testing.h"

#include <doctest/doctest.h>
#include <random>
#include <thread>

using namespace ty;
using namespace ty::objects;

namespace {

constexpr std::size_t kPart = 5u << 20;

struct Upload {
    explicit Upload(Scratch& scratch, Attributes attributes = {}) : s(scratch) {
        if (!s.store.find_bucket("bucket")) s.store.create_bucket("bucket", "us-east-1");
        id = s.store.start_upload("bucket", "model.tar.gz", std::move(attributes));
    }
    Part put(int number, const std::string& text, Expectation expected = {}) {
        if (!expected.size) expected.size = text.size();
        return s.store.put_part(id, number, source_of(text), expected);
    }
    Scratch& s;
    std::string id;
};

std::string part_text(int number, std::size_t size = kPart) {
    return pattern(size, static_cast<std::uint64_t>(number));
}

}  // namespace

TEST_CASE("parts sent out of order and in parallel become one object in one file") {
    Scratch s;
    Upload upload(s, {.content_type = "application/gzip"});
    std::vector<Part> parts(4);
    {
        std::vector<std::jthread> threads;
        for (const int n : {3, 1, 4, 2})
            threads.emplace_back([&, n] {
                parts[static_cast<std::size_t>(n - 1)] =
                    upload.put(n, part_text(n, n == 4 ? 100 : kPart));
            });
    }
    CHECK(s.store.list_parts(upload.id).size() == 4);
    CHECK_FALSE(s.store.find("bucket", "model.tar.gz"));
    const auto info = s.store.complete_upload(upload.id, parts);
    std::string whole, digests;
    for (const int n : {1, 2, 3, 4}) {
        whole += part_text(n, n == 4 ? 100 : kPart);
        digests += digest(HashKind::md5, part_text(n, n == 4 ? 100 : kPart));
    }
    CHECK(info.etag == md5_hex(digests) + "-4");
    CHECK(info.size == whole.size());
    CHECK(content(s.store, "bucket", "model.tar.gz") == whole);
    const auto found = s.store.find("bucket", "model.tar.gz");
    CHECK(found->attributes.content_type == "application/gzip");
    CHECK(found->attributes.part_sizes == std::vector<std::uint64_t>{kPart, kPart, kPart, 100});
    CHECK(s.files() == 1);
    CHECK(reason_of([&] { s.store.list_parts(upload.id); }) == "NoSuchUpload");
}

TEST_CASE("equal parts are written in place: completing adds no file") {
    Scratch s;
    Upload upload(s);
    std::vector<Part> parts;
    for (const int n : {1, 2, 3}) parts.push_back(upload.put(n, part_text(n)));
    CHECK(s.files() == 1);
    SUBCASE("even when a further part was begun and abandoned") {
        CHECK(reason_of([&] {
                  upload.put(4, part_text(4), {.checksums = {{"md5", "wrong"}}});
              }) == "BadDigest");
    }
    s.store.complete_upload(upload.id, parts);
    CHECK(s.files() == 1);
    CHECK(content(s.store, "bucket", "model.tar.gz") == part_text(1) + part_text(2) + part_text(3));
}

TEST_CASE("a part sent twice counts as sent last, and the earlier file goes") {
    Scratch s;
    Upload upload(s);
    const Part first = upload.put(1, part_text(1));
    const Part second = upload.put(1, part_text(9));
    CHECK(reason_of([&] { s.store.complete_upload(upload.id, {first}); }) == "InvalidPart");
    const Part last = upload.put(2, "end");
    s.store.complete_upload(upload.id, {second, last});
    CHECK(content(s.store, "bucket", "model.tar.gz") == part_text(9) + "end");
    CHECK(s.files() == 1);
}

TEST_CASE("parts of any sizes, some left out, are put together right") {
    Scratch s;
    Upload upload(s);
    const Part three = upload.put(3, part_text(3, kPart + 1));
    const Part one = upload.put(1, part_text(1));
    upload.put(2, part_text(2, kPart + 7));
    const Part seven = upload.put(7, part_text(7, 3));
    s.store.complete_upload(upload.id, {one, three, seven});
    CHECK(content(s.store, "bucket", "model.tar.gz") ==
          part_text(1) + part_text(3, kPart + 1) + part_text(7, 3));
    CHECK(s.files() == 1);
}

TEST_CASE("an upload goes on after a restart of the store") {
    Scratch s;
    Upload upload(s);
    const Part one = upload.put(1, part_text(1));
    {
        ObjectStore again(s.dir.path() / "objects", s.db, s.clock);
        const std::string text = part_text(2);
        const Part two = again.put_part(upload.id, 2, source_of(text), {.size = text.size()});
        again.complete_upload(upload.id, {one, two});
        CHECK(content(again, "bucket", "model.tar.gz") == part_text(1) + part_text(2));
    }
    CHECK(s.files() == 1);
}

TEST_CASE("wrong lists of parts are refused by name and the upload stays usable") {
    Scratch s;
    Upload upload(s);
    const Part one = upload.put(1, part_text(1, 10)), two = upload.put(2, part_text(2, 10));
    const auto complete = [&](std::vector<Part> parts) {
        return reason_of([&] { s.store.complete_upload(upload.id, parts); });
    };
    CHECK(complete({}) == "MalformedXML");
    CHECK(complete({two, one}) == "InvalidPartOrder");
    CHECK(complete({one, one}) == "InvalidPartOrder");
    CHECK(complete({one, two}) == "EntityTooSmall");
    CHECK(complete({Part{3, one.etag, 0, {}, {}}}) == "InvalidPart");
    CHECK(complete({Part{1, one.etag, 0, {}, {{"crc32", "AAAAAA=="}}}}) == "no error");
    CHECK(complete({one}) == "NoSuchUpload");
    CHECK(reason_of([&] { upload.put(0, "x"); }) == "InvalidArgument");
    CHECK(reason_of([&] { upload.put(10001, "x"); }) == "InvalidArgument");
    CHECK(reason_of([&] { upload.put(1, "x"); }) == "NoSuchUpload");
}

TEST_CASE("the finished object has the checksum that the upload was started for") {
    Scratch s;
    struct Row {
        const char* name;
        HashKind kind;
        const char* type;
    };
    for (const Row& row :
         {Row{"crc32", HashKind::crc32, "COMPOSITE"}, Row{"crc32", HashKind::crc32, "FULL_OBJECT"},
          Row{"crc64nvme", HashKind::crc64nvme, "FULL_OBJECT"},
          Row{"sha256", HashKind::sha256, "COMPOSITE"}}) {
        Upload upload(s, {.checksums = {{row.name, ""}}, .checksum_type = row.type});
        const Part one = upload.put(1, part_text(1), {.checksums = {{row.name, ""}}});
        const Part two = upload.put(2, "end", {.checksums = {{row.name, ""}}});
        CHECK(one.checksums.at(row.name) == base64_digest(row.kind, part_text(1)));
        CHECK(reason_of([&] {
                  s.store.complete_upload(upload.id, {one, two}, {}, {{row.name, "AAAAAA=="}});
              }) == "BadDigest");
        const auto info = s.store.complete_upload(upload.id, {one, two});
        CHECK(info.attributes.checksum_type == row.type);
        const std::string full = base64_digest(row.kind, part_text(1) + "end");
        const std::string composite =
            base64_digest(row.kind, digest(row.kind, part_text(1)) + digest(row.kind, "end")) +
            "-2";
        CHECK(info.attributes.checksums.at(row.name) ==
              (std::string_view(row.type) == "FULL_OBJECT" ? full : composite));
    }
}

TEST_CASE("aborting removes everything, also under a part on its way") {
    Scratch s;
    Upload upload(s);
    upload.put(1, part_text(1));
    bool aborted = false;
    const auto source = [&, left = kPart](std::span<std::byte> into) mutable -> std::size_t {
        if (left < kPart / 2 && !std::exchange(aborted, true)) s.store.abort_upload(upload.id);
        const std::size_t n = std::min(into.size(), left);
        left -= n;
        return n;
    };
    CHECK(reason_of([&] { s.store.put_part(upload.id, 2, source, {.size = kPart}); }) ==
          "NoSuchUpload");
    CHECK(reason_of([&] { s.store.abort_upload(upload.id); }) == "NoSuchUpload");
    CHECK(s.files() == 0);
}

TEST_CASE("completing while a further part is being written into the common file copies") {
    Scratch s;
    Upload upload(s);
    const Part one = upload.put(1, part_text(1)), two = upload.put(2, part_text(2));
    bool completed = false;
    const auto source = [&, left = 3](std::span<std::byte> into) mutable -> std::size_t {
        if (left == 1 && !std::exchange(completed, true))
            s.store.complete_upload(upload.id, {one, two});
        if (left-- <= 0) return 0;
        std::ranges::fill(into, std::byte('!'));
        return into.size();
    };
    CHECK(reason_of([&] { s.store.put_part(upload.id, 3, source, {.size = kPart}); }) !=
          "no error");
    REQUIRE(completed);
    CHECK(content(s.store, "bucket", "model.tar.gz") == part_text(1) + part_text(2));
    CHECK(s.files() == 1);
}

TEST_CASE("uploads are listed by key, and deleting their bucket ends them") {
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    const auto a = s.store.start_upload("bucket", "x/a", {});
    s.store.start_upload("bucket", "x/b", {});
    s.store.start_upload("bucket", "y", {});
    CHECK(s.store.list_uploads("bucket", "").size() == 3);
    const auto under = s.store.list_uploads("bucket", "x/");
    REQUIRE(under.size() == 2);
    CHECK(under[0].id == a);
    CHECK(s.store.find_upload(a)->key == "x/a");
    s.store.put_part(a, 1, source_of(kPart > 0 ? "part" : ""));
    s.store.delete_bucket("bucket");
    CHECK_FALSE(s.store.find_upload(a));
    CHECK(s.files() == 0);
}
