// SPDX-License-Identifier: Apache-2.0
#include "tests/scenarios/script.h"

#include "base/error.h"

#include <algorithm>
#include <array>

namespace ty::scenario {

namespace {

constexpr seconds kPatience{20};
constexpr const char* kRegion = "us-east-1";

[[noreturn]] void fail(const std::string& message) {
    throw Error(Code::invalid, "", message);
}

template <std::size_t N>
std::size_t choice(const std::string& given, const std::array<std::string_view, N>& words) {
    const auto found = std::ranges::find(words, given);
    if (found == words.end()) fail("unknown word \"" + given + "\"");
    return static_cast<std::size_t>(found - words.begin());
}

}  // namespace

Script::Script() : db_(dir_.path() / "db", {.durability = store::DbOptions::Durability::normal}) {
    placing_.control_plane = "http://127.0.0.1:9";
    placing_.max_running = 100;
    placing_.exit_grace = milliseconds(60'000);
    placing_.clock_check = milliseconds(1);  // the clock moves without a word
}

void Script::line(std::string_view text) {
    words_.clear();
    for (std::string& one : split(trim(text), ' '))
        if (!one.empty()) words_.push_back(std::move(one));
    if (words_.empty() || words_[0].starts_with('#')) return;
    const std::string& verb = words_[0];
    if (verb == "slots") {
        placing_.max_running = static_cast<int>(number(1));
        return;
    }
    if (verb == "expect") return expect();
    if (verb == "down") return service_.reset();
    if (!service_) up();
    if (verb == "up") return;
    if (verb == "request") return capture_error([this] { request(); });
    if (verb == "advance") return clock_.advance(milliseconds(number(1)));
    if (verb == "event") return event();
    if (verb == "repeat") return repeat();
    if (verb == "stop") return capture_error([this] { service_->request_stop(kRegion, word(1)); });
    if (verb == "delete") return capture_error([this] { service_->remove(kRegion, word(1)); });
    if (verb == "gone") return engine_.lose(attempt(word(1)), word(2), rest(3));
    if (verb == "fault") return capture_error([this] { fault(); });
    if (verb == "scale")
        return capture_error(
            [this] { service_->scale(kRegion, word(1), static_cast<int>(number(2))); });
    if (verb == "refuse-launch") return engine_.fail_next_launch(rest(1));
    fail("unknown command \"" + verb + "\"");
}

std::string Script::rest(std::size_t index) const {
    if (index >= words_.size()) return {};
    return join(std::span(words_).subspan(index), " ");
}

const std::string& Script::word(std::size_t index) const {
    if (index >= words_.size()) fail(fmt::format("word {} is missing", index));
    return words_[index];
}

long long Script::number(std::size_t index) const {
    const auto value = parse_int(word(index));
    if (!value) fail("\"" + word(index) + "\" is not a number");
    return *value;
}

void Script::capture_error(const std::function<void()>& fn) {
    error_.clear();
    try {
        fn();
    } catch (const Error& error) {
        error_ = error.message();
    }
}

void Script::up() {
    service_ = std::make_unique<jobs::JobService>(db_, engine_, clock_, ids_, placing_);
}

void Script::request() {
    jobs::JobSpec spec;
    spec.name = word(1);
    spec.region = kRegion;
    spec.account = "000000000000";
    spec.arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/" + to_lower(spec.name);
    for (std::size_t i = 2; i < words_.size(); ++i) {
        option(words_[i], spec);
        if (words_[i].starts_with("warning=")) {
            spec.warning = rest(i).substr(8);
            break;
        }
    }
    const std::string name = spec.name;
    const jobs::Job made = service_->create(std::move(spec), "{}", {}, "");
    attempts_[name] = made.attempts.back().id;
}

void Script::option(const std::string& text, jobs::JobSpec& spec) const {
    const std::vector<std::string> parts = split(text, '=');
    const std::string& name = parts[0];
    const std::string value = parts.size() > 1 ? parts[1] : "";
    const int count = static_cast<int>(parse_int(value).value_or(0));
    if (name == "hosts") spec.instance_count = count;
    if (name == "spot") spec.spot = true;
    if (name == "retries") spec.retries = count;
    if (name == "max-wait") spec.max_wait = seconds(count);
    if (name == "max-runtime") spec.node.limits.max_runtime = seconds(count);
    if (name == "checkpoint") spec.node.checkpoint.emplace().uri = value;
    if (name != "elastic") return;
    const std::vector<std::string> range = split(value, ':');
    if (range.size() != 2) fail("elastic is MIN:MAX");
    spec.node.elastic = plan::Elastic{static_cast<int>(parse_int(range[0]).value_or(1)),
                                      static_cast<int>(parse_int(range[1]).value_or(1)), 3, ""};
}

void Script::fault() {
    constexpr std::array<std::string_view, 4> kKinds = {"notice", "kill", "freeze", "partition"};
    jobs::Fault fault;
    fault.kind = static_cast<jobs::Fault::Kind>(choice(word(2), kKinds));
    if (word(3) != "-") fault.host = word(3);
    if (words_.size() > 4) fault.time = milliseconds(number(4));
    service_->inject(kRegion, word(1), fault);
}

AttemptId Script::attempt(const std::string& name) {
    const auto found = service_ ? service_->find(kRegion, name) : std::nullopt;
    if (found) attempts_[name] = found->attempts.back().id;
    return attempts_.at(name);
}

jobs::Job Script::job(const std::string& name) const {
    const auto found = service_->find(kRegion, name);
    if (!found) fail("there is no job " + name);
    return *found;
}

jobs::JobService::AgentIdentity Script::agent(const std::string& name, const std::string& host) {
    return {attempt(name), host, kRegion, name};
}

plan::Payload Script::payload() const {
    const std::string& what = word(3);
    if (what == "up") return plan::AgentUp{1, "none"};
    if (what == "phase") {
        constexpr std::array<std::string_view, 4> kPhases = {"starting", "downloading", "training",
                                                             "uploading"};
        return plan::PhaseChanged{static_cast<plan::Phase>(choice(word(4), kPhases)), rest(5)};
    }
    if (what == "collected") return plan::Collected{word(4) == "model", false};
    if (what == "checkpoint") {
        plan::CheckpointCommitted committed;
        committed.id = word(4);
        return committed;
    }
    if (what != "finished") fail("unknown event \"" + what + "\"");
    constexpr std::array<std::string_view, 6> kKinds = {"completed", "failed",      "stopped",
                                                        "timed_out", "agent_error", "interrupted"};
    plan::Finished finished;
    finished.outcome.kind = static_cast<plan::Outcome::Kind>(choice(word(4), kKinds));
    std::size_t reason = 5;
    if (words_.size() > 5 && words_[5].starts_with("exit=")) {
        finished.outcome.exit_code = static_cast<int>(parse_int(words_[5].substr(5)).value_or(1));
        ++reason;
    }
    finished.outcome.reason = rest(reason);
    finished.model_uploaded = true;
    return finished;
}

void Script::event() {
    // No agent speaks before it was started.
    const Deadline by = Deadline::in(kPatience);
    while (!is_started(word(1), word(2))) {
        if (by.passed()) fail("its agent was never started");
        sys::pause(Deadline::in(milliseconds(1)), {});
    }
    auto& told = told_[attempt(word(1)).str() + " " + word(2)];
    told.push_back({told.size() + 1, clock_.now(), word(2), payload()});
    plan::SyncRequest request;
    request.host = word(2);
    request.events = {told.back()};
    service_->sync(agent(word(1), word(2)), request, {});
}

void Script::repeat() {
    plan::SyncRequest request;
    request.host = word(2);
    request.events = told_.at(attempt(word(1)).str() + " " + word(2));
    const plan::SyncReply reply = service_->sync(agent(word(1), word(2)), request, {});
    if (reply.acknowledged < request.events.size()) fail("not everything was acknowledged");
}

std::string Script::millis(Instant instant) const {
    return std::to_string((instant - start_).count());
}

std::string Script::millis(const std::optional<Instant>& instant) const {
    return instant ? millis(*instant) : "-";
}

std::string Script::transition(const jobs::Job& job, std::size_t index) const {
    if (index == 0 || index > job.transitions.size()) return "absent";
    const jobs::Transition& one = job.transitions[index - 1];
    return fmt::format("{} {} {}", to_string(one.status), millis(one.start), millis(one.end));
}

/// All it was told so far, as an agent that starts anew hears it.
std::string Script::command(const std::string& name, const std::string& host) {
    struct Word {
        std::string operator()(const plan::Stop&) const { return "stop"; }
        std::string operator()(const plan::Interrupt& i) const {
            return fmt::format("interrupt:{}", i.notice.count());
        }
        std::string operator()(const plan::Freeze&) const { return "freeze"; }
        std::string operator()(const plan::Partition&) const { return "partition"; }
        std::string operator()(const plan::Finish& f) const {
            return "finish:" + join(f.parts, "+");
        }
    };
    std::string all;
    plan::SyncRequest request;
    request.host = host;
    for (;;) {
        const plan::SyncReply reply = service_->sync(agent(name, host), request, {});
        if (reply.gone) return "gone";
        if (!reply.command) return all.empty() ? "none" : all;
        if (reply.command_number != ++request.commands_seen) fail("a command was skipped");
        all.append(all.empty() ? "" : " ").append(std::visit(Word{}, *reply.command));
    }
}

bool Script::is_started(const std::string& name, const std::string& host) {
    const AttemptId id = attempt(name);
    for (const engine::Placement& placement : engine_.launched())
        if (placement.attempt == id &&
            (host.empty() || std::ranges::find(placement.agents, host, &engine::AgentStart::host) !=
                                 placement.agents.end()))
            return true;
    return false;
}

/// The nodes that are wanted and have not ended.
std::string Script::nodes(const jobs::Job& job) {
    std::string all;
    for (const auto& [name, node] : job.attempts.back().nodes)
        if (!node.finished) all.append(all.empty() ? "" : " ").append(name);
    return all.empty() ? "-" : all;
}

std::string Script::actual(const std::string& name, const std::string& aspect) {
    if (aspect == "command") return command(name, word(3));
    if (aspect == "launched" || aspect == "waiting")
        return is_started(name, "") ? "launched" : "waiting";
    if (aspect == "released") {
        const auto all = engine_.released();
        return std::ranges::find(all, attempt(name)) != all.end() ? "released" : "held";
    }
    const jobs::Job now = job(name);
    if (aspect == "status") return std::string(to_string(now.status));
    if (aspect == "attempt") return std::to_string(now.attempts.back().number);
    if (aspect == "nodes") return nodes(now);
    if (aspect == "checkpoint") return now.checkpoint ? now.checkpoint->id : "-";
    if (aspect == "runtime-left")
        return std::to_string(jobs::runtime_left(now, clock_.now()).count());
    if (aspect == "message") return now.transitions.back().message;
    if (aspect == "reason") return now.failure_reason.empty() ? "-" : now.failure_reason;
    if (aspect == "transition") return transition(now, static_cast<std::size_t>(number(3)));
    if (aspect == "training") {
        const auto whole = now.training_seconds();
        return fmt::format("{} {} {}", millis(now.training_start), millis(now.training_end),
                           whole ? std::to_string(*whole) : "-");
    }
    if (aspect != "path") fail("unknown expectation \"" + aspect + "\"");
    std::string path;
    for (const jobs::Transition& one : now.transitions)
        path.append(path.empty() ? "" : " ").append(to_string(one.status));
    return path;
}

void Script::expect() {
    if (word(1) == "error") {
        const std::string is = error_.empty() ? "-" : error_;
        if (is != rest(2)) fail("the error is: " + is);
        return;
    }
    if (!service_) up();
    expect_job(word(1));
}

void Script::expect_job(const std::string& name) {
    const std::string& aspect = word(2);
    std::string wanted = rest(3);
    if (aspect == "launched" || aspect == "waiting" || aspect == "released") wanted = aspect;
    if (aspect == "transition" || aspect == "command") wanted = rest(4);
    const Deadline by = Deadline::in(kPatience);
    for (;;) {
        const std::string is = actual(name, aspect);
        if (is == wanted) return;
        if (by.passed()) fail("it is: " + is);
        sys::pause(Deadline::in(milliseconds(1)), {});
    }
}

}  // namespace ty::scenario
