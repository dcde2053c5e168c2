// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/notice/checkpoint_watch.h"

#include "agent/launcher/notice/checkpoint_file.h"
#include "base/json.h"

#include <optional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;

namespace {

struct Fixture {
    sys::TempDir dir;
    sys::fs::path folder = dir.path() / "ckpt";
    sys::fs::path request = dir.path() / "run" / "request.json";
    sys::Poller poller;
    std::optional<std::string> seen;
    int calls = 0;
    std::optional<CheckpointWatch> watch;

    explicit Fixture(CheckpointWatch::Mode mode = CheckpointWatch::Mode::automatic) {
        sys::fs::create_directories(folder);
        watch.emplace(poller, folder, request, mode);
    }
    void ask() {
        seen.reset();
        watch->ask(3, milliseconds(12500), "node leaves", [this](const std::string& what) {
            seen = what;
            ++calls;
        });
    }
    void wait_until_seen() {
        const Deadline by = Deadline::in(seconds(10));
        while (!seen && !by.passed()) poller.run_once(by, {});
        REQUIRE(seen);
    }
    /// Nothing within what is asked for; the poller has seen all events by then.
    void check_nothing_for(milliseconds time) {
        const Deadline by = Deadline::in(time);
        while (!seen && !by.passed()) poller.run_once(by, {});
        CHECK_MESSAGE(!seen, seen.value_or(""));
    }
};

}  // namespace

TEST_CASE("names tell what can prove a checkpoint") {
    for (const char* good : {"a.pt", "step_5/model.safetensors", "5/.metadata", "latest"})
        CHECK(proof_of(good) == Proof::complete);
    for (const char* bad :
         {".a.pt", "a.pt.tmp", "a.part", "a.incomplete", "tmp-checkpoint-5/a.pt", ".stage/a.pt",
          "metrics.csv", "events.out.tfevents.17.host", "5/__0_0.distcp", ""})
        CHECK_MESSAGE(proof_of(bad) == Proof::nothing, bad);
}

TEST_CASE("the request says generation and deadline, and ends with the evidence") {
    Fixture f;
    f.ask();
    CHECK(f.watch->asking());
    const Json request = parse_json(sys::read_file(f.request));
    CHECK(request["generation"] == 3);
    CHECK(request["deadline_seconds"] == 12.5);
    CHECK(request["why"] == "node leaves");
    sys::write_file(f.folder / "e1.pt.tmp", "weights");
    sys::fs::rename(f.folder / "e1.pt.tmp", f.folder / "e1.pt");
    f.wait_until_seen();
    CHECK(*f.seen == (f.folder / "e1.pt").string());
    CHECK_FALSE(f.watch->asking());
    CHECK_FALSE(sys::fs::exists(f.request));
}

TEST_CASE("a rename over an existing checkpoint counts, one from before the question does not") {
    Fixture f;
    sys::write_file(f.folder / "last.pt", "old");
    f.ask();
    f.check_nothing_for(milliseconds(30));
    sys::write_file(f.dir.path() / "elsewhere", "new");
    sys::fs::rename(f.dir.path() / "elsewhere", f.folder / "last.pt");
    f.wait_until_seen();
    CHECK(f.seen->ends_with("last.pt"));
}

TEST_CASE("a file written in place counts after a quiet moment") {
    Fixture f;
    f.ask();
    const Deadline quiet = Deadline::in(milliseconds(45));
    sys::write_file(f.folder / "a.pt", "weights");
    f.wait_until_seen();
    CHECK(quiet.passed());
    CHECK(f.seen->ends_with("a.pt"));
}

TEST_CASE("evidence waits for a file that is still being written") {
    Fixture f;
    f.ask();
    sys::Fd shard = sys::open_write(f.folder / "rank1.pt", O_TRUNC);
    sys::write_all(shard.get(), "half");
    sys::write_file(f.folder / "rank0.tmp", "whole");
    sys::fs::rename(f.folder / "rank0.tmp", f.folder / "rank0.pt");
    f.check_nothing_for(milliseconds(120));
    shard.close();
    f.wait_until_seen();
    CHECK(f.seen->ends_with("rank0.pt"));
}

TEST_CASE("new folders, folders renamed into place and late checkpoint folders are watched") {
    Fixture f;
    f.ask();
    sys::fs::create_directories(f.folder / "step_5" / "deep");
    sys::write_file(f.folder / "step_5" / "deep" / "model.pt", "weights");
    f.wait_until_seen();
    CHECK(f.seen->ends_with("step_5/deep/model.pt"));

    f.ask();
    sys::fs::create_directories(f.folder / "tmp-checkpoint-6");
    sys::write_file(f.folder / "tmp-checkpoint-6" / "model.pt", "weights");
    f.check_nothing_for(milliseconds(80));
    sys::fs::rename(f.folder / "tmp-checkpoint-6", f.folder / "checkpoint-6");
    f.wait_until_seen();
    CHECK(f.seen->ends_with("checkpoint-6"));

    sys::fs::remove_all(f.folder);
    f.ask();
    f.check_nothing_for(milliseconds(10));
    sys::fs::create_directories(f.folder);
    sys::write_file(f.folder / "late.pt", "weights");
    f.wait_until_seen();
    CHECK(f.seen->ends_with("late.pt"));
}

TEST_CASE("an open file in a folder that was not watched yet is not taken for complete") {
    Fixture f;
    f.ask();
    sys::fs::create_directories(f.folder / "5");
    sys::Fd file = sys::open_write(f.folder / "5" / "model.pt", O_TRUNC);
    sys::write_all(file.get(), "half");
    CHECK(is_open_for_writing(f.folder / "5" / "model.pt"));
    f.check_nothing_for(milliseconds(120));
    file.close();
    CHECK_FALSE(is_open_for_writing(f.folder / "5" / "model.pt"));
    f.wait_until_seen();
}

TEST_CASE("logs and temporary files prove nothing") {
    Fixture f;
    f.ask();
    sys::write_file(f.folder / "metrics.csv", "1,2");
    sys::write_file(f.folder / "model.pt.part", "half");
    sys::write_file(f.folder / ".hidden", "x");
    f.check_nothing_for(milliseconds(100));
}

TEST_CASE("a script that removes the request has saved") {
    Fixture f;
    f.ask();
    sys::fs::remove(f.request);
    f.wait_until_seen();
    CHECK(f.seen->find("request.json") != std::string::npos);

    CheckpointWatch only_request(f.poller, "", f.request);
    std::string what;
    only_request.ask(4, milliseconds(0), "", [&what](const std::string& text) { what = text; });
    sys::fs::remove(f.request);
    const Deadline by = Deadline::in(seconds(10));
    while (what.empty() && !by.passed()) f.poller.run_once(by, {});
    CHECK_FALSE(what.empty());
}

TEST_CASE("a cancelled question is not answered and leaves nothing behind") {
    Fixture f;
    f.ask();
    f.watch->cancel();
    CHECK_FALSE(f.watch->asking());
    CHECK_FALSE(sys::fs::exists(f.request));
    sys::write_file(f.folder / "a.tmp", "x");
    sys::fs::rename(f.folder / "a.tmp", f.folder / "a.pt");
    f.check_nothing_for(milliseconds(20));
    f.ask();
    f.watch.reset();
    CHECK_FALSE(sys::fs::exists(f.request));
    f.check_nothing_for(milliseconds(5));
}

TEST_CASE("without inotify listings are compared") {
    Fixture f(CheckpointWatch::Mode::polling);
    sys::write_file(f.folder / "old.pt", "x");
    f.ask();
    f.check_nothing_for(milliseconds(60));
    sys::write_file(f.folder / "old.pt", "rewritten");
    f.wait_until_seen();
    CHECK(f.seen->ends_with("old.pt"));
    sys::write_file(f.folder / "b.tmp", "weights");
    f.ask();
    sys::fs::rename(f.folder / "b.tmp", f.folder / "b.pt");
    f.wait_until_seen();
    CHECK(f.seen->ends_with("b.pt"));
    f.ask();
    sys::fs::remove(f.request);
    f.wait_until_seen();
    CHECK(f.calls == 3);
}

TEST_CASE("the callback may ask again or end the watch") {
    Fixture f;
    int second = 0;
    f.watch->ask(1, seconds(1), "", [&](const std::string&) {
        f.watch->ask(2, seconds(1), "", [&](const std::string&) {
            ++second;
            f.watch.reset();
        });
    });
    for (const char* name : {"1.pt", "2.pt"}) {
        sys::write_file(f.folder / "t.tmp", name);
        sys::fs::rename(f.folder / "t.tmp", f.folder / name);
        f.poller.run_once(Deadline::in(seconds(5)), {});
    }
    const Deadline by = Deadline::in(seconds(10));
    while (second == 0 && !by.passed()) f.poller.run_once(by, {});
    CHECK(second == 1);
}
