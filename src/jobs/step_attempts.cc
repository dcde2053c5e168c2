// SPDX-License-Identifier: Apache-2.0
// Attempts: how one begins, what ends it before the job, and what follows. An attempt that ended is
// released before the next one begins, so no two of a job ever run.
#include "base/error.h"
#include "base/text.h"
#include "jobs/stepper.h"

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr std::string_view kStarting = "Starting the training job";
constexpr std::string_view kPreparing = "Preparing the instances for training";
constexpr std::size_t kAttemptsKept = 16;
constexpr milliseconds kMargin{60'000};  // beyond a notice, for the last checkpoint's upload
constexpr int kMostFruitless = 10;
constexpr seconds kLongestPause{60};

/// Twice as long each time, from nothing at the first.
seconds pause_after(int failures) {
    if (failures <= 1) return seconds(0);
    return std::min(kLongestPause, seconds(1) * (1 << std::min(failures - 2, 10)));
}

}  // namespace

bool is_active(const Node& node) {
    return !node.finished && !node.released;
}

bool is_leaving(const Node& node) {
    return node.leave_by.has_value() || !node.killed.empty();
}

int host_number(std::string_view host) {
    constexpr std::string_view kPrefix = "algo-";
    if (!host.starts_with(kPrefix)) return 0;
    return static_cast<int>(parse_int(host.substr(kPrefix.size())).value_or(0));
}

milliseconds runtime_left(const Job& job, Instant wanted) {
    milliseconds used = job.ran;
    if (!job.attempts.empty()) {
        const Attempt& attempt = job.attempts.back();
        if (attempt.training && !attempt.ended && wanted > *attempt.training)
            used += wanted - *attempt.training;
    }
    return milliseconds(job.spec.node.limits.max_runtime) - used;
}

// ---- beginning
// -----------------------------------------------------------------------------------

void Stepper::operator()(const Created&) {
    if (!job_.attempts.empty()) return;
    job_.transitions = {{Secondary::starting, now_, std::nullopt, {}}};
    say(warned(kStarting));
    job_.created = now_;
    job_.instances = job_.spec.instance_count;
    changed_ = true;
    begin_attempt(1);
}

/// The same for all nodes that start together, and another one for each later start.
std::int64_t Stepper::next_epoch() {
    const auto second = std::chrono::floor<seconds>(now_).time_since_epoch().count();
    job_.last_epoch = std::max<std::int64_t>(second, job_.last_epoch + 1);
    return job_.last_epoch;
}

void Stepper::begin_attempt(int number) {
    Attempt attempt;
    attempt.id = AttemptId(fmt::format("{}.{}", job_.id.str(), number));
    attempt.number = number;
    const std::int64_t epoch = next_epoch();
    if (is_elastic()) {
        for (int i = 1; i <= job_.instances; ++i)
            add_node(attempt, fmt::format("algo-{}", i), epoch);
    } else {
        for (const std::string& host : hosts_of(job_.spec)) {
            Node& node = attempt.nodes[host];
            node.host = host;
            node.wanted = now_;
            node.epoch = epoch;
        }
    }
    effects_.push_back(Launch{attempt.id});
    job_.attempts.push_back(std::move(attempt));
    if (job_.attempts.size() > kAttemptsKept) job_.attempts.erase(job_.attempts.begin());
    changed_ = true;
}

void Stepper::operator()(const Queued& queued) {
    const Attempt* attempt = current(queued.attempt);
    if (attempt == nullptr || attempt->launched || job_.secondary() != Secondary::starting) return;
    say(fmt::format("Waiting for a free slot: {} jobs are running", queued.running));
}

void Stepper::operator()(const Placed& placed) {
    Attempt* attempt = current(placed.attempt);
    if (attempt == nullptr) return;
    if (!attempt->launched) {
        attempt->launched = true;
        noted_ = true;
        if (job_.secondary() == Secondary::starting) say(warned(kPreparing));
    }
    for (auto& [name, node] : attempt->nodes) {
        const bool meant =
            placed.nodes.empty() || std::ranges::find(placed.nodes, name) != placed.nodes.end();
        if (!meant || node.launched) continue;
        node.launched = true;
        noted_ = true;
    }
}

void Stepper::operator()(const LaunchFailed& failed) {
    Attempt* attempt = current(failed.attempt);
    if (attempt == nullptr) return;
    const bool begun =
        std::ranges::any_of(attempt->nodes, [](const NodeEntry& n) { return n.second.seen > 0; });
    const bool first = !attempt->launched && !begun;
    if (first) return launch_failed_for_all(*attempt, failed.reason);
    if (!is_elastic()) return;  // it runs: this is old news
    std::vector<std::string> lost;
    for (const auto& [name, node] : attempt->nodes)
        if (is_active(node) && !node.launched && node.seen == 0 &&
            (failed.nodes.empty() || std::ranges::find(failed.nodes, name) != failed.nodes.end()))
            lost.push_back(name);
    for (const std::string& name : lost) {
        if (attempt->ended) return;
        auto& entry = *attempt->nodes.find(name);
        plan::Outcome outcome;
        outcome.kind = plan::Outcome::Kind::agent_error;
        outcome.reason = "InternalServerError: an agent could not be started: " + failed.reason;
        entry.second.finished = outcome;
        drop_node(*attempt, entry, "its agent could not be started: " + failed.reason, false, now_);
    }
}

void Stepper::launch_failed_for_all(Attempt& attempt, const std::string& reason) {
    const std::string why = "the agents could not be started: " + reason;
    changed_ = true;
    bool again = retry(attempt, why);
    const bool replaceable = job_.spec.spot || is_elastic();
    if (!again && replaceable && attempt.number > 1 && bear_fruitless(attempt)) {
        attempt.interrupted = why;
        enter(Secondary::interrupted, "Waiting for instances: " + why, now_);
        again = true;
    }
    if (!again)
        return end({Status::failed, Secondary::failed, "Training job failed",
                    "InternalServerError: " + why},
                   now_);
    if (!attempt.not_before) attempt.not_before = now_ + pause_after(job_.retried + 1);
    end_attempt(attempt, now_);
}

// ---- ending
// --------------------------------------------------------------------------------------

/// Its time is counted, and what is left of it is removed.
void Stepper::end_attempt(Attempt& attempt, Instant at) {
    if (!attempt.ended) {
        at = std::min(at, now_);
        attempt.ended =
            std::max(at, attempt.nodes.empty() ? at : attempt.nodes.begin()->second.wanted);
        const auto since = [&](const std::optional<Instant>& from) {
            return from ? std::max(milliseconds(0), *attempt.ended - *from) : milliseconds(0);
        };
        job_.trained += since(attempt.downloading);
        job_.ran += since(attempt.training);
        changed_ = true;
    }
    if (!attempt.released) effects_.push_back(Release{attempt.id});
}

void Stepper::interrupt(Attempt& attempt, const std::string& host, const std::string& why,
                        milliseconds notice) {
    if (!is_stopping()) {
        if (attempt.interrupted.empty()) {
            attempt.interrupted = host + ": " + why;
            attempt.first_failed.clear();  // it was a consequence
            enter(Secondary::interrupted,
                  fmt::format("Training job interrupted on {}: {}; {}", host, why,
                              job_.spec.node.checkpoint
                                  ? "it goes on from its last checkpoint on new instances"
                                  : "it starts from the beginning on new instances, because it has "
                                    "no CheckpointConfig"),
                  now_);
        }
        forget_unlaunched(attempt, plan::Outcome::Kind::interrupted);
        for (auto& [name, node] : attempt.nodes)
            if (is_active(node)) leave(node, notice, host + ": " + why);
        effects_.push_back(Wake{attempt.id});
    }
    settle(attempt, now_);
}

bool Stepper::retry(Attempt& attempt, const std::string& why) {
    if (is_stopping() || job_.retried >= job_.spec.retries) return false;
    ++job_.retried;
    attempt.interrupted = why;
    attempt.first_failed.clear();
    enter(Secondary::restarting,
          fmt::format("Restarting the training job ({} of {} retries): {}", job_.retried,
                      job_.spec.retries, why),
          now_);
    for (auto& [name, node] : attempt.nodes)
        if (is_active(node)) leave(node, kFarewell, "restarting: " + why);
    effects_.push_back(Wake{attempt.id});
    return true;
}

bool Stepper::bear_fruitless(Attempt& attempt) {
    if (++job_.fruitless > kMostFruitless) return false;
    noted_ = true;
    if (const seconds pause = pause_after(job_.fruitless); pause > seconds(0))
        attempt.not_before = now_ + pause;
    return true;
}

void Stepper::leave(Node& node, milliseconds notice, const std::string& why) {
    if (is_leaving(node)) return;
    node.commands.emplace_back(plan::Interrupt{notice, why});
    node.leave_by = now_ + notice + kMargin;
    noted_ = true;
}

void Stepper::tell_stop(Attempt& attempt, Node& node) {
    const bool told = std::ranges::any_of(node.commands, [](const plan::Command& command) {
        return std::holds_alternative<plan::Stop>(command);
    });
    if (told || !is_active(node)) return;
    node.commands.emplace_back(plan::Stop{job_.spec.node.limits.stop_grace});
    effects_.push_back(Wake{attempt.id});
    noted_ = true;
}

void Stepper::tell_others_to_stop(Attempt& attempt) {
    forget_unlaunched(attempt, plan::Outcome::Kind::stopped);
    for (auto& [name, node] : attempt.nodes) tell_stop(attempt, node);
}

/// Nodes of an elastic attempt that were not started yet need not be any more.
void Stepper::forget_unlaunched(Attempt& attempt, plan::Outcome::Kind as) {
    if (!is_elastic()) return;
    for (auto& [name, node] : attempt.nodes) {
        if (!is_active(node) || node.launched || node.seen > 0) continue;
        plan::Outcome never;
        never.kind = as;
        node.finished = never;
        noted_ = true;
    }
}

void Stepper::settle(Attempt& attempt, Instant at) {
    using Kind = plan::Outcome::Kind;
    if (is_terminal(job_.status) || attempt.ended) return;
    if (std::ranges::any_of(attempt.nodes, [](const NodeEntry& n) { return is_active(n.second); }))
        return settle_results(attempt);
    if (attempt.interrupted.empty() || is_stopping()) {
        const bool over = !is_elastic() || is_stopping() || !attempt.first_failed.empty() ||
                          is_concluding(attempt);
        if (over) end(ending_of(attempt), at);
        return;  // an elastic attempt without nodes gets new ones
    }
    const auto all = [&](Kind kind) {
        return std::ranges::all_of(attempt.nodes, [kind](const NodeEntry& n) {
            return n.second.finished && n.second.finished->kind == kind;
        });
    };
    const bool timed_out = std::ranges::any_of(attempt.nodes, [](const NodeEntry& n) {
        return n.second.finished && n.second.finished->kind == Kind::timed_out;
    });
    if ((all(Kind::completed) && !attempt.nodes.empty()) || timed_out)
        return end(ending_of(attempt), at);
    end_attempt(attempt, at);
}

void Stepper::operator()(const Released& released) {
    for (Attempt& attempt : job_.attempts) {
        if (attempt.id != released.attempt || attempt.released) continue;
        if (!released.node.empty()) {
            const auto found = attempt.nodes.find(released.node);
            if (found == attempt.nodes.end() || !found->second.finished || found->second.released ||
                attempt.agents.empty())
                continue;
            noted_ = true;
            // What it uploaded is still wanted: it stays known.
            if (found->second.collected || is_terminal(job_.status))
                found->second.released = true;
            else
                attempt.nodes.erase(found);
            continue;
        }
        if (!attempt.ended) continue;
        attempt.released = true;
        noted_ = true;
        if (is_terminal(job_.status)) continue;
        attempt.nodes.clear();
        if (!attempt.not_before || *attempt.not_before <= now_) return next_attempt();
    }
}

void Stepper::next_attempt() {
    if (runtime_left(job_, now_) <= milliseconds(0))
        return end({Status::stopped,
                    Secondary::max_runtime_exceeded,
                    "Training job was stopped: it ran for MaxRuntimeInSeconds",
                    {}},
                   now_);
    const int number = last().number + 1;
    last().not_before.reset();
    enter(Secondary::starting, std::string(kStarting), now_);
    begin_attempt(number);
}

}  // namespace ty::jobs
