// SPDX-License-Identifier: Apache-2.0
// The whole life of a job as a pure function: no clock, no store, no engine. Called inside the
// write transaction that stores its result.
//
// What the transitions obey: they are contiguous, starts never decrease, only the last one is open,
// a terminal one ends where it starts, and after it nothing changes but the attempt's release.
#include "base/error.h"
#include "base/text.h"
#include "jobs/jobs.h"

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr std::size_t kReasonLimit = 1024;   // code points, as AWS cuts it
constexpr std::size_t kMessageLimit = 1024;  // of a status message

constexpr std::string_view kStarting = "Starting the training job";
constexpr std::string_view kPreparing = "Preparing the instances for training";

std::string_view default_message(plan::Phase phase) {
    switch (phase) {
        case plan::Phase::starting:
            return kPreparing;
        case plan::Phase::downloading:
            return "Downloading input data";
        case plan::Phase::training:
            return "Training image download completed. Training in progress.";
        case plan::Phase::uploading:
            return "Uploading generated training model";
    }
    return {};
}

Secondary secondary_of(plan::Phase phase) {
    switch (phase) {
        case plan::Phase::starting:
            return Secondary::starting;
        case plan::Phase::downloading:
            return Secondary::downloading;
        case plan::Phase::training:
            return Secondary::training;
        case plan::Phase::uploading:
            return Secondary::uploading;
    }
    return Secondary::starting;
}

/// How the job ends, put together from how its hosts ended.
struct Ending {
    Status status = Status::completed;
    Secondary secondary = Secondary::completed;
    std::string_view message;
    std::string reason;
};

bool is_failure(const plan::Outcome& outcome) {
    return outcome.kind == plan::Outcome::Kind::failed ||
           outcome.kind == plan::Outcome::Kind::agent_error;
}

std::string reason_of(const plan::Outcome& outcome) {
    if (!outcome.reason.empty()) return outcome.reason;
    if (outcome.kind == plan::Outcome::Kind::agent_error)
        return "InternalServerError: We encountered an internal error. Please try again.";
    return fmt::format("AlgorithmError: , exit code: {}", outcome.exit_code.value_or(1));
}

class Stepper {
public:
    Stepper(Job job, Instant now) : job_(std::move(job)), now_(now) {}

    Stepped take() && {
        if (changed_ || noted_) ++job_.version;
        if (changed_) job_.modified = std::max(job_.modified, now_);
        return {std::move(job_), std::move(effects_)};
    }

    void operator()(const Created&) {
        if (!job_.attempts.empty()) return;
        Attempt attempt;
        attempt.id = AttemptId(job_.id.str() + ".1");
        job_.attempts.push_back(attempt);
        job_.transitions = {{Secondary::starting, now_, std::nullopt, warned(kStarting)}};
        job_.created = now_;
        changed_ = true;
        effects_.push_back(Launch{attempt.id});
    }

    void operator()(const Queued& queued) {
        Attempt* attempt = current(queued.attempt);
        if (attempt == nullptr || attempt->launched || job_.secondary() != Secondary::starting)
            return;
        say(fmt::format("Waiting for a free slot: {} jobs are running", queued.running));
    }

    void operator()(const Placed& placed) {
        Attempt* attempt = current(placed.attempt);
        if (attempt == nullptr || attempt->launched) return;
        attempt->launched = true;
        noted_ = true;
        if (job_.secondary() == Secondary::starting) say(warned(kPreparing));
    }

    void operator()(const StopRequested&) {
        if (is_terminal(job_.status) || job_.stop_requested) return;
        job_.stop_requested = true;
        changed_ = true;
        const Attempt* attempt = job_.attempts.empty() ? nullptr : &job_.attempts.back();
        if (attempt == nullptr || attempt->seen.empty()) {  // nothing has begun
            end({Status::stopped, Secondary::stopped, "Training job stopped", {}}, now_);
            return;
        }
        job_.status = Status::stopping;
        enter(Secondary::stopping, "Stopping the training job", now_);
        effects_.push_back(Wake{attempt->id});
    }

    void operator()(const AgentEvent& event) {
        Attempt* attempt = current(event.attempt);
        if (attempt == nullptr || !has_host(event.event.host)) return;
        std::uint64_t& seen = attempt->seen[event.event.host];
        if (event.event.seq <= seen) return;
        seen = event.event.seq;
        noted_ = true;
        attempt->launched = true;
        if (attempt->finished.contains(event.event.host)) return;
        std::visit([&](const auto& payload) { apply(*attempt, event.event, payload); },
                   event.event.payload);
    }

    void operator()(const AgentGone& gone) {
        Attempt* attempt = current(gone.attempt);
        if (attempt == nullptr || !has_host(gone.host) || attempt->finished.contains(gone.host))
            return;
        const std::string how = gone.ending.empty() ? "" : " (" + gone.ending + ")";
        plan::Outcome outcome;
        outcome.kind = plan::Outcome::Kind::agent_error;
        outcome.reason = fmt::format(
            "InternalServerError: the agent on {} ended unexpectedly{}; nothing of its output was "
            "kept. Create the job again; if it happens again, look for memory shortage in the "
            "system's log",
            gone.host, how);
        attempt->finished.emplace(gone.host, outcome);
        if (attempt->first_failed.empty()) attempt->first_failed = gone.host;
        changed_ = true;
        end(ending_of(*attempt), now_);  // at once: the other hosts are released with it
    }

    void operator()(const LaunchFailed& failed) {
        Attempt* attempt = current(failed.attempt);
        if (attempt == nullptr || !attempt->seen.empty()) return;
        changed_ = true;
        end({Status::failed, Secondary::failed, "Training job failed",
             "InternalServerError: the agents could not be started: " + failed.reason},
            now_);
    }

    void operator()(const Released& released) {
        for (Attempt& attempt : job_.attempts) {
            if (attempt.id != released.attempt || attempt.released) continue;
            if (!is_terminal(job_.status)) continue;
            attempt.released = true;
            noted_ = true;
        }
    }

    void operator()(const FaultRequested&) {}
    void operator()(const FaultsScheduled&) {}
    void operator()(const ScaleRequested&) {}
    void operator()(const TimePassed&) {}

private:
    void apply(Attempt&, const plan::Event&, const plan::Collected&) {}
    void apply(Attempt&, const plan::Event&, const plan::CheckpointCommitted&) {}
    void apply(Attempt&, const plan::Event&, const plan::CheckpointRestored&) {}
    void apply(Attempt&, const plan::Event&, const plan::GenerationChanged&) {}
    void apply(Attempt&, const plan::Event&, const plan::Progress&) {}

    /// The attempt the stimulus speaks of, when the job still listens to it.
    Attempt* current(const AttemptId& id) {
        if (is_terminal(job_.status) || job_.attempts.empty()) return nullptr;
        Attempt& last = job_.attempts.back();
        return last.id == id && !last.released ? &last : nullptr;
    }

    /// What the user should know stays in the first transition.
    std::string warned(std::string_view message) const {
        const std::string& warning = job_.spec.warning;
        return warning.empty() ? std::string(message) : fmt::format("{} ({})", message, warning);
    }

    bool has_host(const std::string& host) const {
        const auto hosts = hosts_of(job_.spec);
        return std::ranges::find(hosts, host) != hosts.end();
    }

    void apply(Attempt&, const plan::Event&, const plan::AgentUp&) { changed_ = true; }

    void apply(Attempt& attempt, const plan::Event& event, const plan::PhaseChanged& changed) {
        plan::Phase& phase = attempt.phases[event.host];
        if (changed.phase < phase) return;
        phase = changed.phase;
        show(attempt, changed.message, event.time);
    }

    void apply(Attempt& attempt, const plan::Event& event, const plan::Finished& finished) {
        attempt.finished.emplace(event.host, finished.outcome);
        attempt.phases[event.host] = plan::Phase::uploading;
        job_.model_uploaded |= finished.model_uploaded;
        changed_ = true;
        if (is_failure(finished.outcome) && attempt.first_failed.empty())
            attempt.first_failed = event.host;
        if (attempt.finished.size() == hosts_of(job_.spec).size()) {
            end(ending_of(attempt), event.time);
        } else if (is_failure(finished.outcome)) {
            effects_.push_back(Wake{attempt.id});  // the others are told to stop
        } else {
            show(attempt, {}, event.time);
        }
    }

    /// The phase of the job: of its slowest host, but "downloading" as soon as anyone does.
    plan::Phase phase_of(const Attempt& attempt) const {
        plan::Phase slowest = plan::Phase::uploading;
        plan::Phase fastest = plan::Phase::starting;
        for (const std::string& host : hosts_of(job_.spec)) {
            const auto found = attempt.phases.find(host);
            const plan::Phase phase =
                found == attempt.phases.end() ? plan::Phase::starting : found->second;
            slowest = std::min(slowest, phase);
            fastest = std::max(fastest, phase);
        }
        if (slowest == plan::Phase::starting && fastest > plan::Phase::starting)
            return plan::Phase::downloading;
        return slowest;
    }

    void show(const Attempt& attempt, const std::string& message, Instant at) {
        const plan::Phase phase = phase_of(attempt);
        // Once stopping, only the upload is still news.
        if (job_.status == Status::stopping && phase != plan::Phase::uploading) return;
        const Secondary secondary = secondary_of(phase);
        if (job_.secondary() == secondary) {
            if (!message.empty()) say(message);
            return;
        }
        if (secondary == Secondary::starting) return;
        enter(secondary, message.empty() ? std::string(default_message(phase)) : message, at);
        if (!job_.training_start && phase != plan::Phase::starting)
            job_.training_start = job_.transitions.back().start;
    }

    Ending ending_of(const Attempt& attempt) const {
        using Kind = plan::Outcome::Kind;
        bool timed_out = false;
        bool stopped = job_.stop_requested;
        for (const auto& [host, outcome] : attempt.finished) {
            timed_out |= outcome.kind == Kind::timed_out;
            stopped |= outcome.kind == Kind::stopped;
        }
        if (const auto found = attempt.finished.find(attempt.first_failed);
            found != attempt.finished.end())
            return {Status::failed, Secondary::failed, "Training job failed",
                    reason_of(found->second)};
        if (timed_out)
            return {Status::stopped,
                    Secondary::max_runtime_exceeded,
                    "Training job was stopped: it ran for MaxRuntimeInSeconds",
                    {}};
        if (stopped) return {Status::stopped, Secondary::stopped, "Training job stopped", {}};
        return {Status::completed, Secondary::completed, "Training job completed", {}};
    }

    void end(const Ending& ending, Instant at) {
        enter(ending.secondary, std::string(ending.message), at);
        Transition& last = job_.transitions.back();
        last.end = last.start;
        job_.status = ending.status;
        job_.failure_reason =
            std::string(truncate_utf8(to_valid_utf8(ending.reason), kReasonLimit));
        if (job_.training_start) job_.training_end = last.start;
        if (!job_.attempts.empty()) effects_.push_back(Release{job_.attempts.back().id});
    }

    /// Close the current transition and open the next; never before it, never in the future.
    void enter(Secondary secondary, std::string message, Instant at) {
        Transition& last = job_.transitions.back();
        const Instant start = std::max(last.start, std::min(at, now_));
        last.end = start;
        job_.transitions.push_back({secondary, start, std::nullopt, {}});
        changed_ = true;
        say(std::move(message));
    }

    void say(std::string message) {
        std::string cut(truncate_utf8(to_valid_utf8(message), kMessageLimit));
        Transition& last = job_.transitions.back();
        if (last.message == cut) return;
        last.message = std::move(cut);
        changed_ = true;
    }

    Job job_;
    const Instant now_;
    std::vector<Effect> effects_;
    bool changed_ = false;  // something a client can see
    bool noted_ = false;    // only our own bookkeeping
};

}  // namespace

Stepped step(Job job, const Stimulus& stimulus, Instant now) {
    Stepper stepper(std::move(job), now);
    std::visit(stepper, stimulus);
    return std::move(stepper).take();
}

std::optional<Instant> next_due(const Job&) {
    return std::nullopt;
}

bool wants_stop(const Job& job) {
    return job.stop_requested ||
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
    const auto whole = std::chrono::floor<seconds>(*training_end - *training_start);
    return std::max<std::int64_t>(1, whole.count());
}

}  // namespace ty::jobs
