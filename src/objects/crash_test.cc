// SPDX-License-Identifier: Apache-2.0
// Children that put, replace, delete and complete, are killed at random moments; what they
// acknowledged must be there and whole, and nothing else may be left.
#include "objects/ingest.h"
#include "objects/testing.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <random>

using namespace ty;
using namespace ty::objects;

namespace {

/// Sent when an operation has returned. The content follows from key and version.
struct Acknowledged {
    int key = 0;
    int version = 0;  ///< 0: deleted
};

std::string text_of(int key, int version) {
    // Small and large by turns; every fifth key is an upload in parts.
    const std::size_t size = key % 5 == 4 ? (5u << 20) + 100 : key % 2 == 0 ? 200 : 40'000;
    // Says itself which it is.
    std::string text = pattern(size, static_cast<std::uint64_t>(key * 100'000 + version));
    const std::string label = fmt::format("{:3}{:9}", key, version);
    return text.replace(0, label.size(), label);
}

void write_version(ObjectStore& store, int key, int version) {
    const std::string name = "key-" + std::to_string(key), text = text_of(key, version);
    if (key % 5 != 4) {
        store.put("bucket", name, {}, source_of(text));
        return;
    }
    const auto upload = store.start_upload("bucket", name, {});
    const std::string first = text.substr(0, 5u << 20), second = text.substr(5u << 20);
    const Part one = store.put_part(upload, 1, source_of(first), {.size = first.size()});
    const Part two = store.put_part(upload, 2, source_of(second), {.size = second.size()});
    store.complete_upload(upload, {one, two});
}

[[noreturn]] void child(const sys::fs::path& dir, int round, int report) {
    SystemClock clock;
    store::Db db(dir / "state.db");
    ObjectStore store(dir / "objects", db, clock);
    std::mt19937 random(static_cast<unsigned>(round));
    for (int version = round * 1000 + 1;; ++version) {
        Acknowledged done{static_cast<int>(random() % 10), version};
        if (random() % 6 == 0) {
            done.version = 0;
            store.remove("bucket", "key-" + std::to_string(done.key));
        } else {
            write_version(store, done.key, version);
        }
        if (::write(report, &done, sizeof done) != sizeof done) ::_exit(1);
    }
}

}  // namespace

TEST_CASE("objects acknowledged before SIGKILL are whole after it, others invisible or whole") {
    const sys::TempDir dir("objects-crash");
    SystemClock clock;
    std::map<int, int> known;  // key -> acknowledged version
    {
        store::Db db(dir.path() / "state.db");
        ObjectStore(dir.path() / "objects", db, clock).create_bucket("bucket", "us-east-1");
    }
    std::mt19937 random(99);
    for (int round = 1; round <= 50; ++round) {
        sys::Pipe pipe = sys::make_pipe();
        const pid_t pid = ::fork();
        REQUIRE(pid >= 0);
        if (pid == 0) child(dir.path(), round, pipe.write.get());
        pipe.write.close();
        const auto next = [&]() -> std::optional<Acknowledged> {
            Acknowledged one;
            const auto n =
                sys::read_some(pipe.read.get(), std::as_writable_bytes(std::span(&one, 1)));
            if (n != sizeof one) return std::nullopt;
            known[one.key] = one.version;
            return one;
        };
        for (auto left = 1 + random() % 6; left > 0; --left) REQUIRE(next());
        // A spin of random length puts the kill anywhere inside the operation that follows.
        for (volatile auto spin = random() % 3'000'000; spin > 0;) spin = spin - 1;
        ::kill(pid, SIGKILL);
        while (next()) {
        }
        ::waitpid(pid, nullptr, 0);

        store::Db db(dir.path() / "state.db");
        ObjectStore store(dir.path() / "objects", db, clock);
        std::size_t files = 0;
        int unacknowledged = 0;  // the child did one thing at a time: at most one
        for (int key = 0; key < 10; ++key) {
            const auto found = store.find("bucket", "key-" + std::to_string(key));
            int version = 0;
            if (found) {
                const std::string text = content(store, "bucket", found->key);
                files += text.size() > kInlineLimit;
                REQUIRE(text.size() == found->size);
                version = static_cast<int>(parse_int(trim(text.substr(3, 9))).value_or(-1));
                CHECK(text == text_of(key, version));
            }
            if (version != known[key]) ++unacknowledged;
            known[key] = version;
        }
        CHECK(unacknowledged <= 1);
        // Parts of an interrupted upload stay for the client to go on with; all else was swept.
        for (const auto& upload : store.list_uploads("bucket", "")) store.abort_upload(upload.id);
        CHECK(Scratch::count_files(dir.path() / "objects" / "blobs") == files);
    }
}
