// SPDX-License-Identifier: Apache-2.0
// CheckpointSync against a storage that fails in every way, through real files.
#include "agent/checkpoint/checkpoint.h"
#include "agent/checkpoint/manifest.h"
#include "agent/checkpoint/testing/fake_storage.h"
#include "base/error.h"
#include "base/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;

namespace {

constexpr seconds kSoon{20};

/// One node's folder, thrown away and made anew for every attempt.
class Node {
public:
    struct Settings {
        int attempt = 1;
        std::string node = "algo-1", uri = "s3://bucket/jobs/x", job = "x", resume;
        int keep = 3;
        bool elastic = false, alone = true, watch = true;
        milliseconds patience{5'000};
        plan::Credentials credentials;
        std::string endpoint;
    };

    explicit Node(FakeStorage& storage) : Node(storage, Settings()) {}
    Node(FakeStorage& storage, Settings settings) : folder(dir_.path() / "checkpoints") {
        CheckpointOptions options;
        options.checkpoint.uri = settings.uri;
        options.checkpoint.keep = settings.keep;
        options.checkpoint.resume = settings.resume;
        options.checkpoint.endpoint = settings.endpoint;
        options.checkpoint.credentials = settings.credentials;
        options.folder = folder;
        options.job = settings.job;
        options.node = settings.node;
        options.attempt = settings.attempt;
        options.elastic = settings.elastic;
        options.alone = settings.alone;
        options.watch = settings.watch;
        options.quiet = 20ms;
        options.scan_every = 20ms;
        options.patience = settings.patience;
        options.make_client = storage.make_client(clock);
        options.say = [this](const std::string& line) {
            state_.with([&](State& state) { state.lines.push_back(line); });
        };
        options.on_commit = [this](const plan::CheckpointCommitted& commit) {
            state_.with([&](State& state) { state.commits.push_back(commit); });
            state_.notify();
        };
        options.on_restore = [this](const plan::CheckpointRestored&) { ++restores; };
        sync = std::make_unique<CheckpointSync>(options, clock);
    }

    CheckpointSync::Restored restore() { return sync->restore(Deadline::in(kSoon), {}); }
    void flush() { sync->flush(Deadline::in(kSoon), {}); }
    void write(const std::string& path, const std::string& content) const {
        sys::fs::create_directories((folder / path).parent_path());
        sys::write_file(folder / path, content);
    }
    std::string read(const std::string& path) const {
        return sys::fs::exists(folder / path) ? sys::read_file(folder / path) : "(none)";
    }
    std::size_t files() const {
        std::size_t count = 0;
        for (const auto& entry : sys::fs::recursive_directory_iterator(dir_.path()))
            count += entry.is_regular_file() ? 1 : 0;
        return count;
    }
    std::vector<plan::CheckpointCommitted> commits() const {
        return state_.with([](const State& state) { return state.commits; });
    }
    bool wait_for_commits(std::size_t count) const {
        const auto enough = [&](const State& state) { return state.commits.size() >= count; };
        return state_.wait(Deadline::in(kSoon), {}, enough, enough);
    }
    bool said(std::string_view part) const {
        return state_.with([&](const State& state) {
            return std::ranges::any_of(state.lines, [&](const std::string& line) {
                return line.find(part) != std::string::npos;
            });
        });
    }
    std::size_t lines() const {
        return state_.with([](const State& state) { return state.lines.size(); });
    }

    SystemClock clock;
    std::unique_ptr<CheckpointSync> sync;
    int restores = 0;

private:
    struct State {
        std::vector<plan::CheckpointCommitted> commits;
        std::vector<std::string> lines;
    };
    mutable Sync<State> state_;
    sys::TempDir dir_{"checkpoint"};

public:
    const sys::fs::path folder;
};

Node::Settings attempt(int number) {
    Node::Settings settings;
    settings.attempt = number;
    return settings;
}

const std::string kData = "bucket/jobs/x/.trainyard/data/";
const std::string kManifests = "bucket/jobs/x/.trainyard/manifests/";

std::optional<Error> failure_of(const std::function<void()>& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error;
    }
    return std::nullopt;
}

}  // namespace

TEST_CASE("what was flushed in one attempt is there in the next") {
    FakeStorage storage;
    Node first(storage);
    CHECK_FALSE(first.restore().found);
    first.write("checkpoint-1200/model.pt", "weights");
    first.write("last.pt", "1200");
    first.write("x.tmp", "no");
    first.flush();
    REQUIRE(first.commits().size() == 1);
    const plan::CheckpointCommitted commit = first.commits()[0];
    CHECK(commit.id == "000001-000000000-000000001-algo-1");
    CHECK(commit.step == 1200);
    CHECK(commit.files == 2);
    CHECK(commit.bytes == 11);
    CHECK(commit.uploaded == 11);
    CHECK(storage.get("bucket/jobs/x/last.pt") == "1200");  // the names people see
    CHECK(storage.get("bucket/jobs/x/checkpoint-1200/model.pt") == "weights");

    Node second(storage, attempt(2));
    const auto restored = second.restore();
    CHECK(restored.found);
    CHECK(restored.id == commit.id);
    CHECK(restored.bytes == 11);
    CHECK(restored.skipped == 0);
    CHECK(second.restores == 1);
    CHECK(second.read("last.pt") == "1200");
    CHECK(second.read("checkpoint-1200/model.pt") == "weights");
    CHECK(second.files() == 2);
    second.flush();
    CHECK(second.commits().empty());  // nothing is new
    second.write("last.pt", "1300");
    second.flush();
    REQUIRE(second.commits().size() == 1);
    CHECK(second.commits()[0].id == "000002-000000000-000000001-algo-1");
    CHECK(second.commits()[0].uploaded == 4);
    CHECK(storage.complaints().empty());
}

TEST_CASE("a new commit uploads what changed; the same bytes again are not sent") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("a", "one");
    node.write("b", "two");
    node.flush();
    storage.forget_calls();
    node.write("a", "one");  // rewritten, equal
    node.flush();
    CHECK(node.commits().size() == 1);
    CHECK(storage.count("PUT", "/data/") == 0);
    node.write("b", "new");
    node.flush();
    CHECK(node.commits().size() == 2);
    CHECK(storage.count("PUT", "/data/") == 1);
}

TEST_CASE("a large file travels in parts and comes back") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    std::string big(20u << 20, '\0');
    for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 2654435761u >> 13);
    node.write("big.bin", big);
    node.flush();
    CHECK(storage.count("POST", "/data/") == 2);
    Node next(storage, attempt(2));
    next.restore();
    CHECK(next.read("big.bin") == big);
    next.write("big.bin", big);
    storage.forget_calls();
    next.flush();
    CHECK(next.commits().empty());
    CHECK(storage.count("POST", "/data/") == 0);
}

TEST_CASE(
    "the thread of its own commits when the folder is quiet, with and without the kernel's help") {
    for (const bool watch : {true, false}) {
        CAPTURE(watch);
        FakeStorage storage;
        Node::Settings settings;
        settings.watch = watch;
        Node node(storage, settings);
        node.restore();
        node.sync->start();
        node.write("d/a.pt", "1");
        REQUIRE(node.wait_for_commits(1));
        {
            sys::Fd open = sys::open_write(node.folder / "d/open.pt", 0);
            sys::write_all(open.get(), "half");
            node.write("d/a.pt", "22");
            sys::write_all(open.get(), " and half");
        }
        REQUIRE(node.wait_for_commits(2));
        node.flush();
        Node next(storage, attempt(2));
        next.restore();
        CHECK(next.read("d/a.pt") == "22");
        CHECK(next.read("d/open.pt") == "half and half");
    }
}

TEST_CASE(
    "a file that is written all the time is left out in the end, with its older version kept") {
    FakeStorage storage;
    Node::Settings settings;
    settings.patience = 100ms;
    Node node(storage, settings);
    node.restore();
    node.write("log", "line 1\n");
    node.flush();
    node.sync->start();
    const sys::Fd log = sys::open_write(node.folder / "log", O_APPEND);
    sys::write_all(log.get(), "line 2\n");
    node.write("a.pt", "1");
    REQUIRE(node.wait_for_commits(2));
    CHECK(node.commits()[1].files == 2);
    Node next(storage, attempt(2));
    next.restore();
    CHECK(next.read("a.pt") == "1");
    CHECK(next.read("log") == "line 1\n");
}

TEST_CASE("what a killed program had open is not taken") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.sync->start();
    node.write("last.pt", "old");
    REQUIRE(node.wait_for_commits(1));
    sys::Fd torn = sys::open_write(node.folder / "last.pt", O_TRUNC);
    sys::write_all(torn.get(), "ne");
    node.sync->brace();
    torn.close();
    node.write("closed-after.pt", "x");
    node.flush();
    Node next(storage, attempt(2));
    next.restore();
    CHECK(next.read("last.pt") == "old");
}

TEST_CASE("torn and corrupt checkpoints are passed over for the newest valid one") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    for (int i = 1; i <= 3; ++i) {
        node.write("a", std::to_string(i));
        node.flush();
    }
    const std::string third = kManifests + "000001-000000000-000000003-algo-1.json";
    const std::string second = kData + "000001-000000000-000000002-algo-1/a";
    REQUIRE_FALSE(storage.get(third).empty());
    REQUIRE(storage.get(second) == "2");
    const auto restored = [&] {
        Node next(storage, attempt(2));
        const auto result = next.restore();
        CHECK(next.files() <= 1);
        return next.read("a") + " " + std::to_string(result.skipped);
    };
    CHECK(restored() == "3 0");
    storage.put(third, storage.get(third).substr(0, 100));
    CHECK(restored() == "2 1");
    storage.put(second, "X");  // as many bytes, others
    CHECK(restored() == "1 2");
    storage.put(second, "");
    CHECK(restored() == "1 2");
    storage.remove(second);
    CHECK(restored() == "1 2");
    storage.put(kManifests + "000001-000000000-000000001-algo-1.json", "{}");
    CHECK(restored() == "(none) 3");
}

TEST_CASE("a checkpoint can be named, and its absence or damage is said") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    for (int i = 1; i <= 2; ++i) {
        node.write("a", std::to_string(i));
        node.flush();
    }
    Node::Settings settings;
    settings.job = "another";
    settings.resume = "000001-000000000-000000001-algo-1";
    {
        Node next(storage, settings);
        CHECK(next.restore().id == settings.resume);
        CHECK(next.read("a") == "1");
        next.write("a", "3");
        next.flush();
        // A job of another name in the same prefix goes on counting.
        CHECK(next.commits()[0].id == "000002-000000000-000000001-algo-1");
        settings.attempt = 2;
        Node later(storage, settings);
        later.restore();
        CHECK(later.read("a") == "3");  // its own progress counts, not where it began
        settings.attempt = 1;
        settings.job = "third";
    }
    storage.put(kData + "000001-000000000-000000001-algo-1/a", "X");
    Node bad(storage, settings);
    auto error = failure_of([&] { bad.restore(); });
    REQUIRE(error);
    CHECK(error->code() == Code::corrupt);
    CHECK(error->message().find(settings.resume) != std::string::npos);
    CHECK(bad.files() == 0);
    settings.resume = "../../nonsense";
    Node none(storage, settings);
    error = failure_of([&] { none.restore(); });
    REQUIRE(error);
    CHECK(error->code() == Code::not_found);
}

TEST_CASE("a prefix without manifests is copied as it is, and kept when the program goes on") {
    FakeStorage storage;
    storage.put("bucket/jobs/x/pretrained/model.pt", "p");
    storage.put("bucket/jobs/x/config.json", "{}");
    storage.put("bucket/jobs/x/folder/", "");
    storage.put("bucket/jobs/x/../escape", "e");
    storage.put("bucket/jobs/xy", "other");
    Node node(storage);
    const auto restored = node.restore();
    CHECK(restored.found);
    CHECK(restored.id.empty());
    CHECK(restored.files == 2);
    CHECK(node.read("pretrained/model.pt") == "p");
    node.sync->start();
    node.flush();
    CHECK(node.commits().empty());
    storage.forget_calls();
    node.write("a", "1");
    node.flush();
    REQUIRE(node.commits().size() == 1);
    CHECK(node.commits()[0].files == 3);
    CHECK(node.commits()[0].uploaded == 1);  // the others are copied where they lie
    Node next(storage, attempt(2));
    next.restore();
    CHECK(next.read("pretrained/model.pt") == "p");
    CHECK(next.read("a") == "1");
}

TEST_CASE("what is deleted here is deleted there, by name and in later checkpoints") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("a", "1");
    node.write("b", "1");
    node.flush();
    sys::fs::remove(node.folder / "a");
    node.flush();
    CHECK(storage.keys("bucket/jobs/x/a").empty());
    CHECK(storage.get("bucket/jobs/x/b") == "1");
    Node next(storage, attempt(2));
    next.restore();
    CHECK(next.read("a") == "(none)");
    CHECK(next.read("b") == "1");
}

TEST_CASE("old checkpoints go, with the bytes nobody needs, over attempts") {
    FakeStorage storage;
    for (int round = 1; round <= 3; ++round) {
        Node::Settings settings = attempt(round);
        settings.keep = 2;
        Node node(storage, settings);
        node.restore();
        node.write("forever", "same");
        for (int i = 1; i <= 3; ++i) {
            node.write("last", format("{}.{}", round, i));
            node.flush();
        }
        CHECK(storage.keys(kManifests).size() == 2);
        CHECK(storage.keys(kData).size() == 3);  // two of last, one of forever
    }
    Node node(storage, attempt(4));
    CHECK(node.restore().skipped == 0);
    CHECK(node.read("last") == "3.3");
    CHECK(node.read("forever") == "same");
}

TEST_CASE("nodes of one attempt start from the same state and add up") {
    FakeStorage storage;
    Node::Settings one, two;
    one.alone = two.alone = false;
    two.node = "algo-2";
    {
        Node a(storage, one), b(storage, two);
        a.restore();
        a.write("shared", "1");
        a.write("rank0", "a1");
        a.flush();
        CHECK_FALSE(b.restore().found);  // not what a has begun meanwhile
        b.write("rank1", "b1");
        b.flush();
    }
    one.attempt = two.attempt = 2;
    Node a(storage, one);
    a.restore();
    CHECK(a.read("rank1") == "b1");
    CHECK(a.read("shared") == "1");
    sys::fs::remove(a.folder / "shared");
    a.write("rank0", "a2");
    a.flush();
    Node b(storage, two);
    b.restore();
    CHECK(b.read("rank0") == "a1");
    b.write("rank1", "b2");
    b.flush();
    one.attempt = 3;
    Node next(storage, one);
    CHECK(next.restore().files == 2);
    CHECK(next.read("rank0") == "a2");
    CHECK(next.read("rank1") == "b2");
    CHECK(next.read("shared") == "(none)");
}

TEST_CASE(
    "generations hand over: settled by all, refreshed by all, fetched only where it changed") {
    FakeStorage storage;
    Node::Settings one, two;
    one.alone = two.alone = false;
    one.elastic = two.elastic = true;
    two.node = "algo-2";
    Node a(storage, one);
    a.restore();
    a.sync->start();
    CHECK_FALSE(a.sync->refresh(1, Deadline::in(kSoon), {}).found);
    a.write("last", "g1");
    a.write("big", std::string(100'000, 'x'));
    a.sync->settle(1, Deadline::in(kSoon), {});
    REQUIRE(a.commits().size() == 1);

    Node b(storage, two);
    CHECK(b.restore().found);
    b.sync->start();
    CHECK(b.sync->refresh(2, Deadline::in(kSoon), {}).downloaded == 0);
    CHECK(a.sync->refresh(2, Deadline::in(kSoon), {}).downloaded == 0);
    b.write("last", "g2 of b");
    b.write("torn.pt", "");  // a checkpoint's name and no bytes: its writer was killed
    b.sync->settle(2, Deadline::in(kSoon), {});
    a.sync->settle(2, Deadline::in(kSoon), {});
    storage.forget_calls();
    const auto refreshed = a.sync->refresh(3, Deadline::in(kSoon), {});
    CHECK(refreshed.downloaded == 7);
    CHECK(a.read("last") == "g2 of b");
    b.sync->refresh(3, Deadline::in(kSoon), {});
    CHECK(b.read("torn.pt") == "(none)");  // what is not in the checkpoint is not in the folder
    CHECK(b.read("big").size() == 100'000);
    a.write("last", "g3");
    REQUIRE(a.wait_for_commits(2));  // the watch goes on
}

TEST_CASE("links, pipes and other people's names do no harm") {
    FakeStorage storage;
    const sys::TempDir outside;
    sys::write_file(outside.path() / "secret", "s");
    Node node(storage);
    node.restore();
    node.write("a", "1");
    node.write("d/x", "1");
    node.write(std::string("raw\xff name\n+%41"), "raw");
    sys::fs::create_symlink(outside.path() / "secret", node.folder / "link");
    sys::fs::create_directory_symlink(outside.path(), node.folder / "dlink");
    REQUIRE(::mkfifo((node.folder / "pipe").c_str(), 0600) == 0);
    node.flush();
    node.flush();
    REQUIRE(node.commits().size() == 1);
    CHECK(node.commits()[0].files == 3);
    CHECK(node.lines() == 4);  // one warning each, and the commit
    for (const auto& [name, content] : storage.objects()) CHECK(content != "s");
    Node next(storage, attempt(2));
    sys::fs::create_directories(next.folder);
    sys::fs::create_symlink(outside.path() / "secret", next.folder / "a");
    sys::fs::create_directory_symlink(outside.path(), next.folder / "d");
    next.restore();
    CHECK(next.read(std::string("raw\xff name\n+%41")) == "raw");
    CHECK(next.read("a") == "1");
    CHECK(next.read("d/x") == "1");
    CHECK(sys::read_file(outside.path() / "secret") == "s");
    CHECK_FALSE(sys::fs::exists(outside.path() / "x"));
}

TEST_CASE("a storage that refuses, tears, loses answers and stalls only costs time") {
    FakeStorage storage;
    storage.set_faults([](const FakeStorage::Call& call) {
        using enum FakeStorage::Fault;
        switch (call.number % 11) {
            case 2:
                return refuse;
            case 5:
                return lose;
            case 7:
                return stall;
            case 9:
                return tear;
            default:
                return none;
        }
    });
    Node node(storage);
    node.restore();
    node.write("big", std::string(9u << 20, 'b'));
    for (int i = 0; i < 5; ++i) node.write(format("f{}", i), std::string(1000, 'f'));
    node.flush();
    REQUIRE(node.commits().size() == 1);
    Node next(storage, attempt(2));
    CHECK(next.restore().files == 6);
    CHECK(bool(next.read("big") == std::string(9u << 20, 'b')));
}

TEST_CASE("a storage that is away fails a flush in time, and the next one catches up") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("a", "1");
    storage.kill();
    const auto error = failure_of([&] { node.sync->flush(Deadline::in(200ms), {}); });
    REQUIRE(error);
    CHECK((error->code() == Code::unavailable || error->code() == Code::timed_out));
    storage.start();
    node.flush();
    CHECK(node.commits().size() == 1);
}

TEST_CASE("denied is said and not repeated as if it would pass") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("a", "1");
    storage.set_faults([](const FakeStorage::Call&) { return FakeStorage::Fault::deny; });
    const auto error = failure_of([&] { node.flush(); });
    REQUIRE(error);
    CHECK(error->code() == Code::denied);
    CHECK(storage.keys(kManifests).empty());
}

TEST_CASE("a manifest is the last thing to be written") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    storage.set_faults([](const FakeStorage::Call& call) {
        return call.path.find("/data/") != std::string::npos ? FakeStorage::Fault::deny
                                                             : FakeStorage::Fault::none;
    });
    node.write("a", "1");
    CHECK(failure_of([&] { node.flush(); }));
    CHECK(storage.objects().empty());
    CHECK(node.commits().empty());
}

TEST_CASE("another storage is spoken to with its own endpoint and keys, plain http only") {
    FakeStorage own, other;
    Node::Settings settings;
    settings.uri = "gs://elsewhere/runs";
    settings.endpoint = format("http://127.0.0.1:{}", other.port());
    settings.credentials = {"GOOGKEY", "hmac", ""};
    Node node(own, settings);
    node.restore();
    node.write("a", "1");
    node.flush();
    sys::fs::remove(node.folder / "a");
    node.write("b", "1");
    node.flush();
    CHECK(own.objects().empty());
    CHECK(other.get("elsewhere/runs/b") == "1");
    CHECK(other.complaints().empty());

    settings.endpoint = "https://storage.googleapis.com";
    auto error = failure_of([&] { const Node refused(own, settings); });
    REQUIRE(error);
    CHECK(error->code() == Code::unsupported);
    CHECK(error->message().find("storage.googleapis.com") != std::string::npos);
    CHECK(error->message().find("gateway") != std::string::npos);
    settings.endpoint = "";
    error = failure_of([&] { const Node refused(own, settings); });
    REQUIRE(error);
    CHECK(error->message().find("endpoint") != std::string::npos);
    settings.uri = "ftp://x/y";
    CHECK(failure_of([&] { const Node refused(own, settings); })->code() == Code::invalid);
}

TEST_CASE("a bucket without a prefix is a place too") {
    FakeStorage storage;
    Node::Settings settings;
    settings.uri = "s3://bucket";
    Node node(storage, settings);
    node.restore();
    node.write("a", "1");
    node.flush();
    CHECK(storage.get("bucket/a") == "1");
    settings.attempt = 2;
    Node next(storage, settings);
    CHECK(next.restore().found);
}

TEST_CASE("the step is what the helper left, else what names say") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("last.pt", "1");
    node.write(".trainyard-state.json", "{\"step\": 77}");
    node.flush();
    CHECK(node.commits()[0].step == 77);
    CHECK(node.commits()[0].files == 1);
}

TEST_CASE(
    "files replaced or deleted during the upload are stored as they were when the folder was "
    "whole") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("a", "a1");
    node.write("b", "b1");
    node.write("c", "c1");
    Sync<bool> meddled(false);
    storage.set_faults([&](const FakeStorage::Call& call) {
        if (call.method != "PUT" || call.path.find("/data/") == std::string::npos)
            return FakeStorage::Fault::none;
        if (meddled.with([](bool& is) { return std::exchange(is, true); }))
            return FakeStorage::Fault::none;
        for (const std::string name : {"a", "b"}) {
            node.write(name + ".tmp", "later");
            sys::fs::rename(node.folder / (name + ".tmp"), node.folder / name);
        }
        sys::fs::remove(node.folder / "c");
        return FakeStorage::Fault::none;
    });
    node.flush();
    storage.set_faults({});
    REQUIRE_FALSE(node.commits().empty());
    CHECK(node.commits()[0].bytes == 6);
    CHECK(node.commits()[0].files == 3);
}

TEST_CASE("a file overwritten in place during the upload is never stored half and half") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("big", std::string(12u << 20, '1'));
    node.flush();
    node.write("big", std::string(12u << 20, '2'));
    node.write("small", "2");
    int times = 0;
    storage.set_faults([&](const FakeStorage::Call& call) {
        if (call.method == "PUT" && call.query.find("partNumber=1&") != std::string::npos &&
            ++times <= 2) {
            const sys::Fd file = sys::open_write(node.folder / "big", 0);
            sys::write_all(file.get(), std::string(100, static_cast<char>('3' + times)));
        }
        return FakeStorage::Fault::none;
    });
    node.flush();
    storage.set_faults({});
    node.flush();
    REQUIRE(node.commits().size() >= 2);
    const std::string content = node.read("big");
    std::size_t seen = 0;
    for (const std::string& key : storage.keys(kData)) {
        if (!key.ends_with("/big")) continue;
        const std::string stored = storage.get(key);
        CHECK((stored == std::string(12u << 20, '1') || stored == content ||
               stored.substr(100) == std::string((12u << 20) - 100, '2')));
        ++seen;
    }
    CHECK(seen >= 2);
    Node next(storage, attempt(2));
    CHECK(next.restore().skipped == 0);
    CHECK(bool(next.read("big") == content));
    CHECK(next.read("small") == "2");
}

TEST_CASE("a flush makes an upload give way that gets nowhere") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.sync->start();
    Sync<bool> stuck(false);
    storage.set_faults([&](const FakeStorage::Call& call) {
        const bool first = stuck.with([](bool& is) { return !std::exchange(is, true); });
        if (first && call.method == "PUT") {
            stuck.notify();
            sys::pause(Deadline::in(1s), {});
        }
        return FakeStorage::Fault::none;
    });
    node.write("a", "1");
    const auto is_stuck = [](bool is) { return is; };
    REQUIRE(stuck.wait(Deadline::in(kSoon), {}, is_stuck, is_stuck));
    node.write("b", "1");
    node.sync->flush(Deadline::in(500ms), {});
    REQUIRE_FALSE(node.commits().empty());
    CHECK(node.commits().back().files == 2);
}

TEST_CASE("a storage that returns other bytes than it was given ends in words, not in a loop") {
    FakeStorage storage;
    Node node(storage);
    node.restore();
    node.write("a", "12345678");
    node.flush();
    storage.put(kData + "000001-000000000-000000001-algo-1/a", "87654321");
    Node next(storage, attempt(2));
    const auto restored = next.restore();
    CHECK_FALSE(restored.found);
    CHECK(restored.skipped == 1);
    CHECK(next.said("starts empty"));
    CHECK(next.files() == 0);
}
