// SPDX-License-Identifier: Apache-2.0
// Frames of the rendezvous protocol: {"kind": …, members}. Decoding is strict, because the bytes
// come from a port that anybody may reach: see Reader.
#include "base/error.h"
#include "rendezvous/wire.h"

#include <nlohmann/json.hpp>

#include <type_traits>

namespace ty::rendezvous {

namespace {

// ---- writing: one body per message; the kind is put in front of it

Json body(const up::Hello& hello) {
    Json json = {{"facts", to_json(hello.facts)},    {"running", hello.running},
                 {"master_port", hello.master_port}, {"warm", hello.warm},
                 {"newest", hello.newest},           {"newest_nodes", hello.newest_nodes}};
    if (hello.policy) json["policy"] = to_json(*hello.policy);
    return json;
}
Json body(const up::Beat& beat) {
    return {{"sequence", beat.sequence}};
}
Json body(const up::Stopped& stopped) {
    return {{"generation", stopped.generation}, {"master_port", stopped.master_port}};
}
Json body(const up::Failed& failed) {
    return {{"generation", failed.generation},
            {"cause", std::string(to_string(failed.cause))},
            {"failure", to_json(failed.failure)}};
}
Json body(const up::Succeeded& succeeded) {
    return {{"generation", succeeded.generation}};
}
Json body(const up::Leaving& leaving) {
    return {{"deadline_ms", leaving.deadline.count()}, {"why", clipped(leaving.why)}};
}
Json body(const up::Checkpointed& done) {
    return {{"generation", done.generation}, {"what", clipped(done.what)}};
}
Json body(const up::Warm& /*warm*/) {
    return Json::object();
}
Json body(const up::Bye& /*bye*/) {
    return Json::object();
}
Json body(const down::Welcome& welcome) {
    return {{"lease_ms", welcome.lease.count()}, {"fence_ms", welcome.fence.count()}};
}
Json body(const down::Refused& refused) {
    return {{"why", clipped(refused.why)}};
}
Json body(const down::Start& start) {
    return {{"assignment", to_json(start.assignment)}};
}
Json body(const down::Abort& abort) {
    return {{"generation", abort.generation},
            {"cause", std::string(to_string(abort.cause))},
            {"why", clipped(abort.why)},
            {"graceful", abort.graceful}};
}
Json body(const down::CheckpointNow& now) {
    return {{"generation", now.generation},
            {"deadline_ms", now.deadline.count()},
            {"cause", std::string(to_string(now.cause))},
            {"why", clipped(now.why)}};
}
Json body(const down::Finish& finish) {
    return to_json(finish);
}
Json body(const down::BeatAnswer& answer) {
    return {{"sequence", answer.sequence}};
}
Json body(const down::Snapshot& snapshot) {
    return {{"state", snapshot.state}};
}

constexpr std::string_view kind(const up::Hello*) {
    return "hello";
}
constexpr std::string_view kind(const up::Beat*) {
    return "beat";
}
constexpr std::string_view kind(const up::Stopped*) {
    return "stopped";
}
constexpr std::string_view kind(const up::Failed*) {
    return "failed";
}
constexpr std::string_view kind(const up::Succeeded*) {
    return "succeeded";
}
constexpr std::string_view kind(const up::Leaving*) {
    return "leaving";
}
constexpr std::string_view kind(const up::Checkpointed*) {
    return "checkpointed";
}
constexpr std::string_view kind(const up::Warm*) {
    return "warm";
}
constexpr std::string_view kind(const up::Bye*) {
    return "bye";
}
constexpr std::string_view kind(const down::Welcome*) {
    return "welcome";
}
constexpr std::string_view kind(const down::Refused*) {
    return "refused";
}
constexpr std::string_view kind(const down::Start*) {
    return "start";
}
constexpr std::string_view kind(const down::Abort*) {
    return "abort";
}
constexpr std::string_view kind(const down::CheckpointNow*) {
    return "checkpoint_now";
}
constexpr std::string_view kind(const down::Finish*) {
    return "finish";
}
constexpr std::string_view kind(const down::BeatAnswer*) {
    return "beat_answer";
}
constexpr std::string_view kind(const down::Snapshot*) {
    return "snapshot";
}

template <typename Variant>
std::string encode_any(const Variant& message) {
    return std::visit(
        [](const auto& one) {
            Json json = {{"kind", std::string(kind(&one))}};
            json.update(body(one));
            return dump_json(json);
        },
        message);
}

// ---- reading

std::int64_t sequence(const Reader& in) {
    return in.whole("sequence", 0, std::numeric_limits<std::int64_t>::max());
}

void read(const Reader& in, up::Hello& hello) {
    hello.facts = read_facts(in.object("facts"));
    hello.running = in.generation("running");
    hello.master_port = in.port("master_port");
    hello.warm = in.flag("warm");
    hello.newest = in.generation("newest");
    hello.newest_nodes = in.number("newest_nodes", 0, kMaxNodes);
    if (in.find("policy") != nullptr) hello.policy = read_policy(in.object("policy"));
}
void read(const Reader& in, up::Beat& beat) {
    beat.sequence = sequence(in);
}
void read(const Reader& in, up::Stopped& stopped) {
    stopped.generation = in.generation("generation");
    stopped.master_port = in.port("master_port");
}
void read(const Reader& in, up::Failed& failed) {
    failed.generation = in.generation("generation");
    failed.cause = in.cause("cause");
    failed.failure = read_failure(in.object("failure"));
}
void read(const Reader& in, up::Succeeded& succeeded) {
    succeeded.generation = in.generation("generation");
}
void read(const Reader& in, up::Leaving& leaving) {
    leaving.deadline = in.duration("deadline_ms");
    leaving.why = in.text("why");
}
void read(const Reader& in, up::Checkpointed& done) {
    done.generation = in.generation("generation");
    done.what = in.text("what");
}
void read(const Reader& /*in*/, up::Warm& /*warm*/) {}
void read(const Reader& /*in*/, up::Bye& /*bye*/) {}
void read(const Reader& in, down::Welcome& welcome) {
    welcome.lease = in.duration("lease_ms");
    welcome.fence = in.duration("fence_ms");
}
void read(const Reader& in, down::Refused& refused) {
    refused.why = in.text("why");
}
void read(const Reader& in, down::Start& start) {
    start.assignment = read_assignment(in.object("assignment"));
}
void read(const Reader& in, down::Abort& abort) {
    abort.generation = in.generation("generation");
    abort.cause = in.cause("cause");
    abort.why = in.text("why");
    abort.graceful = in.flag("graceful");
}
void read(const Reader& in, down::CheckpointNow& now) {
    now.generation = in.generation("generation");
    now.deadline = in.duration("deadline_ms");
    now.cause = in.cause("cause");
    now.why = in.text("why");
}
void read(const Reader& in, down::Finish& finish) {
    finish = read_finish(in);
}
void read(const Reader& in, down::BeatAnswer& answer) {
    answer.sequence = sequence(in);
}
void read(const Reader& in, down::Snapshot& snapshot) {
    snapshot.state = in.text("state", kMaxSnapshot);
}

/// The alternative of Variant whose kind is `name`.
template <typename Variant, std::size_t index = 0>
Variant read_any(const std::string& name, const Reader& in) {
    if constexpr (index == std::variant_size_v<Variant>) {
        in.refuse("kind", "a known kind, not \"" + name.substr(0, 64) + "\"");
    } else {
        using Message = std::variant_alternative_t<index, Variant>;
        if (name != kind(static_cast<const Message*>(nullptr)))
            return read_any<Variant, index + 1>(name, in);
        Message message;
        read(in, message);
        return message;
    }
}

template <typename Variant>
Variant decode_any(std::string_view frame) {
    // Twice the longest snapshot: its quotes are escaped inside the frame.
    if (frame.size() > 2 * kMaxSnapshot + kMaxText)
        throw_error(Code::invalid, "MalformedMessage", "a message of {} bytes is too long",
                    frame.size());
    // The parser takes a NUL for the end and would not look behind it.
    if (frame.find('\0') != std::string_view::npos)
        throw_error(Code::invalid, "MalformedMessage", "a message has a NUL byte in it");
    const Json json = parse_json(frame);
    const Reader in(json, "message");
    return read_any<Variant>(in.text("kind"), in);
}

}  // namespace

std::string encode(const Up& message) {
    return encode_any(message);
}
std::string encode(const Down& message) {
    return encode_any(message);
}
Up decode_up(std::string_view frame) {
    return decode_any<Up>(frame);
}
Down decode_down(std::string_view frame) {
    return decode_any<Down>(frame);
}

}  // namespace ty::rendezvous
