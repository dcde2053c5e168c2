// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/frames.h"

#include "agent/launcher/coordinator/coordinator_log.h"
#include "agent/launcher/coordinator/coordinator_server.h"
#include "agent/launcher/link/lease.h"
#include "base/error.h"
#include "base/log.h"
#include "tests/support/fake_clock.h"

#include <doctest/doctest.h>

namespace ty::agent {

namespace {

const JobSecret kSecret{.run_id = "job", .token = "secret"};

std::string framed(std::string_view body) {
    std::string out;
    append_frame(out, body);
    return out;
}

/// The reason with which `fn` fails; empty when it does not.
template <typename Fn>
std::string reason_of(Fn fn) {
    try {
        fn();
        return {};
    } catch (const Error& error) {
        return error.reason();
    }
}

}  // namespace

TEST_CASE("frames come out whole however the stream was cut") {
    const std::string stream = framed("one") + framed("") + framed(std::string(300, 'x'));
    for (std::size_t step : {1u, 2u, 5u, 1000u}) {
        FrameReader reader(1000);
        std::vector<std::string> bodies;
        for (std::size_t at = 0; at < stream.size(); at += step) {
            reader.append(std::string_view(stream).substr(at, step));
            while (const auto body = reader.next()) bodies.emplace_back(*body);
        }
        CHECK(bodies == std::vector<std::string>{"one", "", std::string(300, 'x')});
        CHECK(reader.buffered() == 0);
    }
}

TEST_CASE("a frame beyond the limit is refused by its length alone") {
    FrameReader reader(100);
    reader.append(framed(std::string(100, 'x')));
    CHECK(reader.next()->size() == 100);
    reader.append(std::string_view("\x65\0\0\0", 4));
    CHECK(reason_of([&reader] { reader.next(); }) == "FrameTooLarge");
    FrameReader other(kDownLimit);
    other.append("\xff\xff\xff\xff");
    CHECK(reason_of([&other] { other.next(); }) == "FrameTooLarge");
}

TEST_CASE("both sides prove that they know the token") {
    SeededIds ids(1);
    const std::string nonce = make_nonce(ids);
    Introduction introduction(kSecret, "node-1");
    const std::string answer = introduction.answer(greeting(nonce), ids);
    CHECK(answer.find("secret") == std::string::npos);
    const Admission admission = admit(kSecret, "host-1", nonce, answer);
    CHECK(admission.node == "node-1");
    CHECK(introduction.verify(admission.answer) == "host-1");
}

TEST_CASE("a node with another token or run id is refused and told why") {
    SeededIds ids(2);
    const std::string nonce = make_nonce(ids);
    Introduction stranger({.run_id = "job", .token = "guess"}, "n");
    const std::string guess = stranger.answer(greeting(nonce), ids);
    CHECK(reason_of([&] { admit(kSecret, "", nonce, guess); }) == "WrongToken");
    Introduction neighbour({.run_id = "other", .token = "secret"}, "n");
    const std::string other = neighbour.answer(greeting(nonce), ids);
    CHECK(reason_of([&] { admit(kSecret, "", nonce, other); }) == "WrongRun");
    CHECK(reason_of([&] { neighbour.verify(refusal("WrongRun")); }) == "WrongRun");
    CHECK(reason_of([&] { stranger.verify(refusal("WrongToken")); }) == "WrongToken");
}

TEST_CASE("an overheard proof is worth nothing on another connection or for another name") {
    SeededIds ids(3);
    const std::string nonce = make_nonce(ids);
    Introduction introduction(kSecret, "n");
    const std::string answer = introduction.answer(greeting(nonce), ids);
    CHECK(reason_of([&] { admit(kSecret, "", make_nonce(ids), answer); }) == "WrongToken");
    std::string renamed = answer;
    renamed.replace(renamed.find("\"n\""), 3, "\"m\"");
    CHECK(reason_of([&] { admit(kSecret, "", nonce, renamed); }) == "WrongToken");

    // Nor can a false coordinator answer with what another one said, or with the node's own proof.
    const Admission admission = admit(kSecret, "", nonce, answer);
    Introduction later(kSecret, "n");
    later.answer(greeting(nonce), ids);
    CHECK(reason_of([&] { later.verify(admission.answer); }) == "Impostor");
    CHECK(reason_of([&] { introduction.verify(answer); }) == "Impostor");
}

TEST_CASE("what is no handshake is refused as such") {
    SeededIds ids(4);
    for (const char* text : {"[]", "{}", "{\"node\":1}", "{\"node\":\"\",\"run_id\":\"job\"}",
                             "{\"node\":\"n\",\"run_id\":\"job\",\"nonce\":\"x\"}"}) {
        CHECK(reason_of([&] { admit(kSecret, "", "nonce", text); }) == "BadHandshake");
    }
    CHECK_THROWS_AS(admit(kSecret, "", "nonce", "GET / HTTP/1.1"), Error);
    Introduction introduction(kSecret, "n");
    for (const char* text : {"[]", "{\"trainyard\":2,\"nonce\":\"x\"}", "{\"trainyard\":1}"}) {
        CHECK(reason_of([&] { introduction.answer(text, ids); }) == "BadHandshake");
    }
}

TEST_CASE("tokens made from run ids differ as the ids do") {
    CHECK(weak_token("a") != weak_token("b"));
    CHECK(weak_token("a").size() == 64);
}

TEST_CASE("a log gives back its last whole record, whatever was torn off") {
    const std::string content = encode_record(1, "{\"a\":1}") + encode_record(2, "two\nlines");
    CHECK(newest_record(content)->sequence == 2);
    CHECK(newest_record(content)->snapshot == "two\nlines");
    const std::size_t first = encode_record(1, "{\"a\":1}").size();
    for (std::size_t size = 0; size < content.size(); ++size) {
        const auto record = newest_record(std::string_view(content).substr(0, size));
        CHECK(record.has_value() == (size >= first));
        if (record) CHECK(record->sequence == 1);
    }
    std::string changed = content;
    changed[content.size() - 3] ^= 1;
    CHECK(newest_record(changed)->sequence == 1);
    CHECK_FALSE(newest_record("trainyard 1 99999999999999999999 x\n"));
    CHECK_FALSE(newest_record("trainyard 1 -5 x\n"));
}

TEST_CASE("a log is private, survives its writer, and is forgotten when old or finished") {
    const sys::TempDir folder;
    const sys::fs::path path = CoordinatorLog::path_for(folder.path() / "state", "job", "h:1");
    CHECK(path != CoordinatorLog::path_for(folder.path() / "state", "job", "h:2"));
    {
        CoordinatorLog log(path);
        log.append(1, "one");
        log.append(2, "two");
    }
    const auto mode = [](const sys::fs::path& of) { return sys::fs::status(of).permissions(); };
    CHECK(mode(path) == sys::fs::perms(0600));
    CHECK(mode(path.parent_path()) == sys::fs::perms(0700));
    test::FakeClock clock(SystemClock().now());
    CHECK(CoordinatorLog::load(path, clock, seconds(60))->snapshot == "two");
    clock.advance(seconds(90));
    CHECK_FALSE(CoordinatorLog::load(path, clock, seconds(60)));
    CoordinatorLog again(path);
    again.append(3, std::string(600'000, 'x'));
    again.append(4, std::string(600'000, 'y'));
    again.append(5, "small");
    clock.set(SystemClock().now());
    CHECK(CoordinatorLog::load(path, clock, seconds(60))->sequence == 5);
    again.finish();
    CHECK_FALSE(CoordinatorLog::load(path, clock, seconds(60)));
}

TEST_CASE("a folder that others may write to holds no log of ours") {
    const sys::TempDir folder;
    CHECK(CoordinatorLog::is_private(folder.path()));
    CHECK(CoordinatorLog::is_private(folder.path() / "absent"));
    sys::fs::permissions(folder.path(), sys::fs::perms(0777));
    CHECK_FALSE(CoordinatorLog::is_private(folder.path()));
    sys::fs::permissions(folder.path(), sys::fs::perms(0700));
    sys::fs::create_directory_symlink(folder.path(), folder.path() / "link");
    CHECK_FALSE(CoordinatorLog::is_private(folder.path() / "link"));
}

TEST_CASE("ten thousand refusals are three lines in two minutes") {
    std::vector<std::string> lines;
    log::set_sink([&lines](std::string_view line) { lines.emplace_back(line); });
    RefusalLog refusals;
    for (int i = 0; i < 10000; ++i) {
        refusals.count("WrongToken", "10.0.0.1", Monotonic() + i * milliseconds(12));
    }
    refusals.count("noise", "10.0.0.1", Monotonic());
    log::set_sink([](std::string_view line) { sys::write_all(2, line); });
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].find("times=5000") != std::string::npos);
}

TEST_CASE("memory slots keep the older snapshot while the newer is written") {
    const MemorySlots slots = [] {
        MemorySlots made = MemorySlots::make();
        made.store(1, std::string(1000, 'a'));
        made.store(2, "second");
        made.store(3, "third");
        return made;
    }();
    CHECK(slots.load()->snapshot == "third");
    CHECK_FALSE(MemorySlots().load());
}

TEST_CASE("a lease counts from when the answered message was sent") {
    Lease lease;
    const Monotonic start;
    lease.set_times(milliseconds(1000), milliseconds(1200));
    CHECK_FALSE(lease.is_held());
    CHECK_FALSE(lease.is_silent(start + seconds(100)));
    lease.welcomed(start);
    const auto first = lease.sent(start + milliseconds(100));
    const auto second = lease.sent(start + milliseconds(200));
    CHECK(lease.ends() == start + milliseconds(1200));
    lease.answered(second);
    CHECK(lease.ends() == start + milliseconds(1400));
    lease.answered(first);  // late: nothing is taken back
    CHECK(lease.ends() == start + milliseconds(1400));
    lease.answered(77);  // never said
    CHECK(lease.ends() == start + milliseconds(1400));
    CHECK_FALSE(lease.is_silent(start + seconds(100)));  // nothing was asked
    lease.sent(start + milliseconds(300));
    CHECK_FALSE(lease.is_uneasy(start + milliseconds(900)));
    CHECK(lease.is_uneasy(start + milliseconds(901)));
    CHECK_FALSE(lease.is_silent(start + milliseconds(1300)));
    CHECK(lease.is_silent(start + milliseconds(1301)));
    CHECK_FALSE(lease.is_lost(start + milliseconds(3400)));
    CHECK(lease.is_lost(start + milliseconds(3401)));
}

TEST_CASE("what may not have been heard is said again until the next generation starts") {
    using namespace rendezvous;
    Unconfirmed said;
    const Monotonic start;
    Failure cause;
    cause.message = "cause";
    said.add(up::Failed{1, Cause::application, cause}, start);
    said.add(up::Failed{1, Cause::application, {}}, start);  // an echo
    said.add(up::Stopped{1, 10}, start);
    said.add(up::Stopped{1, 11}, start);
    said.add(up::Beat{5}, start);
    said.add(up::Leaving{milliseconds(1000), "why"}, start);
    auto all = said.all(start + milliseconds(400));
    REQUIRE(all.size() == 3);
    CHECK(std::get<up::Failed>(all[0]).failure.message == "cause");
    CHECK(std::get<up::Stopped>(all[1]).master_port == 11);
    CHECK(std::get<up::Leaving>(all[2]).deadline == milliseconds(600));
    said.started(2);
    all = said.all(start + seconds(5));
    REQUIRE(all.size() == 1);
    CHECK(std::get<up::Leaving>(all[0]).deadline == milliseconds(0));
}

}  // namespace ty::agent
