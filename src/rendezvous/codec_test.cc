// SPDX-License-Identifier: Apache-2.0
// Frames and snapshots: everything survives the way, nothing else is accepted.
#include "base/error.h"
#include "base/json.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/testing.h"

#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::rendezvous;
using namespace ty::rendezvous::testing;

namespace {

Failure full_failure() {
    return {FailureKind::out_of_memory, 3, 1, "node7", 4711, -9, 9, "a \"quoted\"\nline", true};
}

std::vector<Up> all_ups() {
    up::Hello hello;
    hello.facts = {"id-1", 7, "node7", "fe80::1", "trainer", 8, 65535};
    hello.running = 3;
    hello.master_port = 20001;
    hello.warm = true;
    hello.newest = 4;
    hello.newest_nodes = 8;
    hello.policy = policy_of(2, 100000, 3);
    hello.policy->budgets = {{Cause::hang, 1}, {Cause::preemption, 0}};
    hello.policy->resize = ResizeWhen::checkpoint;
    hello.policy->counting = Counting::torchrun;
    hello.policy->needs_majority = true;
    up::Hello bare;
    bare.facts.id = "x";
    return {hello,
            bare,
            up::Beat{1},
            up::Stopped{2, 3},
            up::Failed{5, Cause::hang, full_failure()},
            up::Failed{},
            up::Succeeded{6},
            up::Leaving{milliseconds(90), "spot"},
            up::Checkpointed{7, "step 9"},
            up::Warm{},
            up::Bye{}};
}

std::vector<Down> all_downs() {
    Assignment assignment;
    assignment.generation = 9;
    assignment.restart_count = 8;
    assignment.group_rank = 1;
    assignment.group_world_size = 4;
    assignment.first_rank = 2;
    assignment.world_size = 8;
    assignment.first_role_rank = 1;
    assignment.role_world_size = 5;
    assignment.master_address = "10.0.0.1";
    assignment.master_port = 29500;
    assignment.successors = {{"a", "10.0.0.2", 1}, {"b", "10.0.0.3", 2}};
    return {down::Welcome{milliseconds(1), milliseconds(2)},
            down::Refused{"no"},
            down::Start{assignment},
            down::Abort{1, Cause::resize, "why", true},
            down::CheckpointNow{1, milliseconds(5), Cause::preemption, "why"},
            down::Finish{Verdict::failed, Cause::hang, "why", full_failure()},
            down::Finish{Verdict::drained, Cause::preemption, "", std::nullopt},
            down::BeatAnswer{5},
            down::Snapshot{std::string(100000, 's')}};
}

Code code_of_up(const std::string& frame) {
    try {
        decode_up(frame);
    } catch (const Error& error) {
        return error.code();
    }
    return Code::internal;
}

/// A valid frame with one member replaced; `path` like "/facts/workers".
std::string with(const Up& message, const std::string& path, const Json& value) {
    Json json = parse_json(encode(message));
    json[Json::json_pointer(path)] = value;
    return dump_json(json);
}

std::string without(const Up& message, const std::string& parent, const std::string& name) {
    Json json = parse_json(encode(message));
    json[Json::json_pointer(parent)].erase(name);
    return dump_json(json);
}

}  // namespace

TEST_CASE("every message survives encoding and decoding") {
    for (const Up& message : all_ups()) {
        const std::string frame = encode(message);
        CHECK(frame.find('\n') == std::string::npos);
        const Up back = decode_up(frame);
        CHECK(back.index() == message.index());
        CHECK(encode(back) == frame);
    }
    for (const Down& message : all_downs()) {
        const Down back = decode_down(encode(message));
        CHECK(back.index() == message.index());
        CHECK(encode(back) == encode(message));
    }
}

TEST_CASE("members arrive as they were sent") {
    const auto hello = std::get<up::Hello>(decode_up(encode(all_ups().front())));
    CHECK(hello.facts.slot == 7);
    CHECK(hello.facts.workers == 8);
    CHECK(hello.policy->budgets.at(Cause::hang) == 1);
    CHECK(hello.policy->resize == ResizeWhen::checkpoint);
    const auto failed =
        std::get<up::Failed>(decode_up(encode(Up(up::Failed{5, Cause::hang, full_failure()}))));
    CHECK(failed.failure.message == "a \"quoted\"\nline");
    CHECK(failed.failure.exit_code == -9);
    CHECK(failed.failure.secondary);
}

TEST_CASE("a beat is small") {
    CHECK(encode(Up(up::Beat{1})) == R"({"kind":"beat","sequence":1})");
    CHECK(encode(Up(up::Bye{})) == R"({"kind":"bye"})");
}

TEST_CASE("long and broken texts are cut and mended when written") {
    Failure failure = full_failure();
    failure.message = std::string(4095, 'x') + "\xC3\xA9 and more";
    Up back = decode_up(encode(Up(up::Failed{1, Cause::application, failure})));
    CHECK(std::get<up::Failed>(back).failure.message == std::string(4095, 'x'));
    failure.message = std::string(4000, '\xFF');  // grows threefold as U+FFFD
    back = decode_up(encode(Up(up::Failed{1, Cause::application, failure})));
    CHECK(std::get<up::Failed>(back).failure.message.size() <= 4096);
}

TEST_CASE("hostile frames are invalid") {
    const Up hello = all_ups().front();
    const std::vector<std::string> frames = {
        "",
        "{",
        "null",
        "[]",
        "7",
        "\"hello\"",
        "{}",
        R"({"kind":7})",
        R"({"kind":"Hello"})",
        R"({"kind":"welcome","lease_ms":1,"fence_ms":1})",
        R"({"kind":"beat"})",
        R"({"kind":"beat","sequence":"1"})",
        R"({"kind":"beat","sequence":1.5})",
        R"({"kind":"beat","sequence":-1})",
        R"({"kind":"beat","sequence":18446744073709551615})",
        R"({"kind":"beat","sequence":1e400})",
        R"({"kind":"beat","sequence":1,"sequence":2})",
        R"({"kind":"beat","sequence":1} )" + std::string("\0x", 2),
        R"({"kind":"stopped","generation":1,"master_port":65536})",
        R"({"kind":"stopped","generation":1,"master_port":-1})",
        R"({"kind":"stopped","generation":9007199254740993,"master_port":1})",
        R"({"kind":"leaving","deadline_ms":-1,"why":""})",
        R"({"kind":"leaving","deadline_ms":1,"why":null})",
        R"({"kind":"hello","facts":[]})",
        std::string(100000, '['),
        std::string(20U << 20U, ' '),
        "{\"kind\":\"\xFF\"}",
        with(hello, "/facts/workers", 0),
        with(hello, "/facts/workers", 4097),
        with(hello, "/facts/id", ""),
        with(hello, "/facts/id", std::string(4097, 'i')),
        with(hello, "/facts/host", true),
        with(hello, "/facts/slot", -1),
        with(hello, "/facts/successor_port", 70000),
        with(hello, "/policy/min_nodes", 0),
        with(hello, "/policy/max_nodes", 1),
        with(hello, "/policy/max_nodes", 100001),
        with(hello, "/policy/resize", "later"),
        with(hello, "/policy/budgets/hang", -1),
        with(hello, "/policy", "default"),
        with(hello, "/warm", 1),
        without(hello, "/facts", "role"),
        without(hello, "", "running"),
        without(hello, "/policy", "lease_ms"),
        with(Up(up::Failed{}), "/failure/kind", "bored"),
        with(Up(up::Failed{}), "/failure/rank", -2),
        with(Up(up::Failed{}), "/cause", "node_lost"),
    };
    for (const std::string& frame : frames) {
        CAPTURE(frame.substr(0, 200));
        CHECK(code_of_up(frame) == Code::invalid);
    }
    CHECK_THROWS_AS(decode_down(R"({"kind":"bye"})"), Error);
    Json start = parse_json(encode(all_downs().at(2)));
    for (const char* member : {"group_rank", "first_rank", "first_role_rank"}) {
        Json wrong = start;
        wrong["assignment"][member] = 8;
        CHECK_THROWS_AS(decode_down(dump_json(wrong)), Error);
    }
    for (int i = 0; i < 2; ++i)
        start["assignment"]["successors"].push_back(start["assignment"]["successors"][0]);
    CHECK_THROWS_AS(decode_down(dump_json(start)), Error);
}

TEST_CASE("unknown members are for newer releases and ignored") {
    CHECK(std::holds_alternative<up::Beat>(
        decode_up(R"({"kind":"beat","sequence":1,"mood":{"a":[1]}})")));
}

TEST_CASE("every cut of a frame is invalid") {
    for (const Up& message : all_ups()) {
        const std::string frame = encode(message);
        for (std::size_t length = 0; length < frame.size(); ++length)
            REQUIRE(code_of_up(frame.substr(0, length)) == Code::invalid);
    }
}

TEST_CASE("a cut or changed snapshot is corrupt") {
    Job job(policy_of(1, 2));
    job.join("a");
    job.join("b");
    const std::string text = job.machine.snapshot();
    const auto code = [](const std::string& snapshot) {
        try {
            Rendezvous::restore(snapshot, policy_of(1, 2), Monotonic());
        } catch (const Error& error) {
            return error.code();
        }
        return Code::internal;
    };
    CHECK(code(text) == Code::internal);  // nothing was thrown
    CHECK(code("") == Code::corrupt);
    CHECK(code("{}") == Code::corrupt);
    for (std::size_t length = 0; length < text.size(); length += 7)
        REQUIRE(code(text.substr(0, length)) == Code::corrupt);
    for (std::size_t at = 0; at < text.size(); at += 3) {
        std::string changed = text;
        changed[at] = changed[at] == '1' ? '2' : '1';
        CAPTURE(at);
        REQUIRE(code(changed) == Code::corrupt);
    }
    Policy other = policy_of(1, 2);
    other.run_id = "other";
    CHECK_THROWS_AS(Rendezvous::restore(text, other, Monotonic()), Error);
}
