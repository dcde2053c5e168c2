// SPDX-License-Identifier: Apache-2.0
// Faults that were asked for, once or on a schedule, and everything that happens by time alone.
#include "jobs/stepper.h"

#include <algorithm>
#include <cmath>

namespace ty::jobs {

namespace {

constexpr milliseconds kShortestInterval{10};

/// splitmix64: the n-th number of a seed, without the numbers before it.
std::uint64_t random_number(std::uint64_t seed, std::uint64_t n) {
    std::uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/// In (0, 1].
double fraction(std::uint64_t number) {
    return (static_cast<double>(number >> 11) + 1.0) * 0x1.0p-53;
}

bool same(const FaultSchedule& a, const FaultSchedule& b) {
    return a.fault.kind == b.fault.kind && a.fault.host == b.fault.host &&
           a.fault.time == b.fault.time && a.fault.why == b.fault.why && a.every == b.every &&
           a.seed == b.seed && a.drawn == b.drawn && a.next == b.next;
}

std::optional<Instant> earlier(std::optional<Instant> a, std::optional<Instant> b) {
    if (!a) return b;
    if (!b) return a;
    return std::min(*a, *b);
}

std::optional<Instant> max_wait_due(const Job& job) {
    if (!job.spec.spot || !job.spec.max_wait || job.status != Status::in_progress)
        return std::nullopt;
    return job.created + *job.spec.max_wait;
}

/// When something that had to wait goes on: another attempt, or further nodes of an elastic one.
std::optional<Instant> resume_due(const Job& job) {
    const Attempt& attempt = job.attempts.back();
    const bool between = attempt.ended && attempt.released;
    const bool runs = !attempt.ended && !attempt.agents.empty();
    if (job.status != Status::in_progress || !(between || runs)) return std::nullopt;
    return attempt.not_before;
}

}  // namespace

milliseconds draw_interval(FaultSchedule& schedule) {
    const double mean = static_cast<double>(schedule.every.count());
    const double drawn = -std::log(fraction(random_number(schedule.seed, schedule.drawn++))) * mean;
    return std::max(kShortestInterval, milliseconds(std::llround(drawn)));
}

std::size_t draw_index(FaultSchedule& schedule, std::size_t count) {
    return random_number(schedule.seed, schedule.drawn++) % count;
}

std::optional<Instant> next_due(const Job& job) {
    if (is_terminal(job.status) || job.attempts.empty()) return std::nullopt;
    std::optional<Instant> due = earlier(max_wait_due(job), resume_due(job));
    if (job.faults && job.status == Status::in_progress) due = earlier(due, job.faults->next);
    const Attempt& attempt = job.attempts.back();
    if (!attempt.ended)
        for (const auto& [name, node] : attempt.nodes)
            if (is_active(node) && node.killed.empty()) due = earlier(due, node.leave_by);
    return due;
}

/// Nodes that run and are not going anyway.
std::vector<std::string> Stepper::faultable(const Attempt& attempt) const {
    std::vector<std::string> names;
    if (job_.status != Status::in_progress || attempt.ended || !attempt.interrupted.empty())
        return names;
    for (const auto& [name, node] : attempt.nodes)
        if (is_active(node) && node.launched && !is_leaving(node)) names.push_back(name);
    return names;
}

void Stepper::operator()(const FaultRequested& requested) {
    if (job_.attempts.empty()) return;
    Attempt& attempt = last();
    std::vector<std::string> names = faultable(attempt);
    if (!requested.fault.host.empty())
        std::erase_if(names, [&](const std::string& name) {
            return name != requested.fault.host &&
                   attempt.nodes.at(name).host != requested.fault.host;
        });
    if (names.empty()) return;
    const auto version = static_cast<std::uint64_t>(job_.version);
    fault(attempt, requested.fault, names[random_number(version, 0) % names.size()]);
}

void Stepper::fault(Attempt& attempt, const Fault& fault, const std::string& name) {
    Node& node = attempt.nodes.at(name);
    noted_ = true;
    switch (fault.kind) {
        case Fault::Kind::notice:
            if (!is_elastic()) return interrupt(attempt, node.host, fault.why, fault.time);
            leave(node, fault.time, fault.why);
            effects_.push_back(Wake{attempt.id});
            return;
        case Fault::Kind::kill:
            node.killed = fault.why.empty() ? "killed on request" : fault.why;
            effects_.push_back(Kill{attempt.id, name});
            return;
        case Fault::Kind::freeze:
            node.commands.emplace_back(plan::Freeze{fault.time});
            effects_.push_back(Wake{attempt.id});
            return;
        case Fault::Kind::partition:
            node.commands.emplace_back(plan::Partition{fault.time});
            effects_.push_back(Wake{attempt.id});
            return;
    }
}

void Stepper::operator()(const FaultsScheduled& scheduled) {
    if (job_.status != Status::in_progress) return;
    std::optional<FaultSchedule> schedule = scheduled.schedule;
    if (schedule) schedule->next = now_ + draw_interval(*schedule);
    if (schedule.has_value() == job_.faults.has_value() &&
        (!schedule || same(*schedule, *job_.faults)))
        return;
    job_.faults = std::move(schedule);
    noted_ = true;
}

/// A moment at which there is nothing to disturb passes without a fault.
void Stepper::scheduled_fault() {
    FaultSchedule& schedule = *job_.faults;
    Attempt& attempt = last();
    std::vector<std::string> names = faultable(attempt);
    if (!schedule.fault.host.empty())
        std::erase_if(names, [&](const std::string& name) {
            return attempt.nodes.at(name).host != schedule.fault.host;
        });
    noted_ = true;
    const std::size_t which = draw_index(schedule, std::max<std::size_t>(1, names.size()));
    schedule.next = now_ + draw_interval(schedule);
    if (names.empty()) return;
    const Fault one = schedule.fault;  // the schedule goes when the job ends with this
    fault(attempt, one, names[which]);
}

/// A machine that is taken away is gone when its notice is over, whatever its agent does.
void Stepper::kill_overstayers(Attempt& attempt) {
    if (attempt.ended) return;
    for (auto& [name, node] : attempt.nodes) {
        if (!is_active(node) || !node.killed.empty() || !node.leave_by || *node.leave_by > now_)
            continue;
        node.killed = "it stayed longer than its notice";
        noted_ = true;
        effects_.push_back(Kill{attempt.id, name});
    }
}

void Stepper::operator()(const TimePassed&) {
    if (is_terminal(job_.status) || job_.attempts.empty()) return;
    if (const auto due = max_wait_due(job_); due && *due <= now_) {
        job_.max_wait_over = true;
        changed_ = true;
        return stop("Stopping the training job: MaxWaitTimeInSeconds is over");
    }
    kill_overstayers(last());
    if (const auto due = resume_due(job_); due && *due <= now_) {
        last().not_before.reset();
        noted_ = true;
        if (last().ended) return next_attempt();
        refill(last());
    }
    if (job_.faults && job_.status == Status::in_progress && job_.faults->next <= now_)
        scheduled_fault();
}

}  // namespace ty::jobs
