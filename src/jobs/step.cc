// SPDX-License-Identifier: Apache-2.0
// The whole life of a job as a pure function: no clock, no store, no engine. Called inside the
// write transaction that stores its result.
//
// What the transitions obey: they are contiguous, starts never decrease, only the last one is open,
// a terminal one ends where it starts, and after it nothing changes but the attempt's release.
#include "base/error.h"
#include "base/text.h"
#include "jobs/ledger.h"
#include "jobs/stepper.h"

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr std::size_t kReasonLimit = 1024;   // code points, as AWS cuts it
constexpr std::size_t kMessageLimit = 1024;  // of a status message
// A job that is interrupted thousands of times keeps its first and its latest transitions.
constexpr std::size_t kMostTransitions = 600;
constexpr std::size_t kFirstTransitions = 100;
constexpr std::size_t kLatestTransitions = 300;

std::string reason_of(const plan::Outcome& outcome) {
    if (!outcome.reason.empty()) return outcome.reason;
    if (outcome.kind == plan::Outcome::Kind::agent_error)
        return "InternalServerError: We encountered an internal error. Please try again.";
    return fmt::format("AlgorithmError: , exit code: {}", outcome.exit_code.value_or(1));
}

}  // namespace

Stepped Stepper::take(const Stimulus& stimulus) && {
    if (changed_ || noted_) {
        keep_ledger(job_, stimulus, now_);
        ++job_.version;
    }
    if (changed_) job_.modified = std::max(job_.modified, now_);
    return {std::move(job_), std::move(effects_)};
}

Attempt* Stepper::current(const AttemptId& id) {
    if (is_terminal(job_.status) || job_.attempts.empty()) return nullptr;
    Attempt& attempt = last();
    return attempt.id == id && !attempt.ended && !attempt.released ? &attempt : nullptr;
}

/// What the user should know stays in the first transition.
std::string Stepper::warned(std::string_view message) const {
    const std::string& warning = job_.spec.warning;
    const bool first = job_.transitions.size() <= 1;
    return warning.empty() || !first ? std::string(message)
                                     : fmt::format("{} ({})", message, warning);
}

// ---- stopping
// ------------------------------------------------------------------------------------

void Stepper::operator()(const StopRequested&) {
    if (is_terminal(job_.status) || job_.stop_requested) return;
    job_.stop_requested = true;
    changed_ = true;
    if (job_.status == Status::in_progress) stop("Stopping the training job");
}

/// Everybody is told to end; at once when nobody has begun.
void Stepper::stop(std::string message) {
    const bool begun =
        !job_.attempts.empty() && !last().ended && !last().released &&
        std::ranges::any_of(last().nodes, [](const NodeEntry& n) { return n.second.seen > 0; });
    if (!begun) return end(stopped_ending(), now_);
    job_.status = Status::stopping;
    enter(Secondary::stopping, std::move(message), now_);
    tell_others_to_stop(last());
    settle(last(), now_);
}

Stepper::Ending Stepper::stopped_ending() const {
    if (job_.max_wait_over)
        return {Status::stopped,
                Secondary::max_wait_time_exceeded,
                "Training job was stopped: MaxWaitTimeInSeconds is over",
                {}};
    return {Status::stopped, Secondary::stopped, "Training job stopped", {}};
}

Stepper::Ending Stepper::ending_of(const Attempt& attempt) const {
    using Kind = plan::Outcome::Kind;
    bool timed_out = false;
    bool stopped = is_stopping();
    bool completed = false;
    for (const auto& [name, node] : attempt.nodes) {
        if (!node.finished) continue;
        timed_out |= node.finished->kind == Kind::timed_out;
        stopped |= node.finished->kind == Kind::stopped;
        completed |= node.finished->kind == Kind::completed;
    }
    if (const auto found = attempt.nodes.find(attempt.first_failed);
        found != attempt.nodes.end() && found->second.finished)
        return {Status::failed, Secondary::failed, "Training job failed",
                reason_of(*found->second.finished)};
    if (timed_out)
        return {Status::stopped,
                Secondary::max_runtime_exceeded,
                "Training job was stopped: it ran for MaxRuntimeInSeconds",
                {}};
    // An elastic job is complete with one node that is: others may have been told to leave.
    if (stopped && !(completed && is_elastic() && !is_stopping())) return stopped_ending();
    return {Status::completed, Secondary::completed, "Training job completed", {}};
}

void Stepper::end(const Ending& ending, Instant at) {
    enter(ending.secondary, std::string(ending.message), at);
    Transition& open = job_.transitions.back();
    open.end = open.start;
    job_.status = ending.status;
    job_.failure_reason = std::string(truncate_utf8(to_valid_utf8(ending.reason), kReasonLimit));
    if (job_.training_start) job_.training_end = open.start;
    job_.faults.reset();
    if (!job_.attempts.empty()) end_attempt(last(), open.start);
}

// ---- transitions
// ---------------------------------------------------------------------------------

/// Close the current transition and open the next; never before it, never in the future.
void Stepper::enter(Secondary secondary, std::string message, Instant at) {
    Transition& open = job_.transitions.back();
    if (open.status == secondary) return say(std::move(message));
    const Instant start = std::max(open.start, std::min(at, now_));
    open.end = start;
    job_.transitions.push_back({secondary, start, std::nullopt, {}});
    changed_ = true;
    say(std::move(message));
    if (job_.transitions.size() > kMostTransitions) condense();
}

void Stepper::say(std::string message) {
    std::string cut(truncate_utf8(to_valid_utf8(message), kMessageLimit));
    Transition& open = job_.transitions.back();
    if (open.message == cut) return;
    open.message = std::move(cut);
    changed_ = true;
}

/// Make one transition of those in the middle.
void Stepper::condense() {
    auto& all = job_.transitions;
    std::size_t to = all.size() - kLatestTransitions;
    while (to + 1 < all.size() && all[to].status == Secondary::interrupted) ++to;
    std::size_t from = kFirstTransitions;
    while (from > 1 && all[from - 1].status == Secondary::interrupted) --from;
    Transition middle{Secondary::interrupted, all[from].start, all[to - 1].end,
                      "Interrupted many times; the single transitions are left out"};
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(from),
              all.begin() + static_cast<std::ptrdiff_t>(to));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(from), std::move(middle));
}

// ---- the door
// ------------------------------------------------------------------------------------

Stepped step(Job job, const Stimulus& stimulus, Instant now) {
    Stepper stepper(std::move(job), now);
    std::visit(stepper, stimulus);
    return std::move(stepper).take(stimulus);
}

bool wants_stop(const Job& job) {
    return job.stop_requested || job.max_wait_over ||
           (!job.attempts.empty() && !job.attempts.back().first_failed.empty());
}

std::vector<std::string> hosts_of(const JobSpec& spec) {
    std::vector<std::string> hosts;
    for (int i = 1; i <= spec.instance_count; ++i) hosts.push_back(fmt::format("algo-{}", i));
    std::ranges::sort(hosts);
    return hosts;
}

std::optional<std::int64_t> Job::training_seconds() const {
    if (!training_start || !training_end) return std::nullopt;
    return std::max<std::int64_t>(1, std::chrono::floor<seconds>(trained).count());
}

}  // namespace ty::jobs
