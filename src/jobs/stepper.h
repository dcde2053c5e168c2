// SPDX-License-Identifier: Apache-2.0
// One move of a job's state machine, as the object that step() makes for it: the job being changed,
// the effects gathered. Private to the step_*.cc files, one per concern:
//   step.cc           transitions, stop, how a job ends
//   step_attempts.cc  attempts: begin, interruption, retry, release, what follows
//   step_nodes.cc     what agents say, and that they are gone
//   step_elastic.cc   nodes that come and go within one attempt
//   step_faults.cc    faults that were asked for, and everything that happens by time alone
#pragma once

#include "jobs/jobs.h"

#include <string>
#include <string_view>
#include <vector>

namespace ty::jobs {

/// Notice for the nodes of an attempt that lost one.
inline constexpr milliseconds kFarewell{10'000};

/// It has not ended, as far as anybody knows.
bool is_active(const Node& node);
bool is_leaving(const Node& node);
/// 12 of "algo-12"; 0 when it is none of ours.
int host_number(std::string_view host);
/// The next of the intervals of a schedule; advances it.
milliseconds draw_interval(FaultSchedule& schedule);
/// A number below `count` from the schedule's generator; advances it.
std::size_t draw_index(FaultSchedule& schedule, std::size_t count);

class Stepper {
public:
    Stepper(Job job, Instant now) : job_(std::move(job)), now_(now) {}
    Stepped take(const Stimulus& stimulus) &&;

    void operator()(const Created&);
    void operator()(const StopRequested&);
    void operator()(const AgentEvent& event);
    void operator()(const AgentGone& gone);
    void operator()(const LaunchFailed& failed);
    void operator()(const Queued& queued);
    void operator()(const Placed& placed);
    void operator()(const Released& released);
    void operator()(const FaultRequested& requested);
    void operator()(const FaultsScheduled& scheduled);
    void operator()(const ScaleRequested& requested);
    void operator()(const TimePassed&);

private:
    /// How the job ends, put together from how its nodes ended.
    struct Ending {
        Status status = Status::completed;
        Secondary secondary = Secondary::completed;
        std::string_view message;
        std::string reason;
    };
    using NodeEntry = std::map<std::string, Node>::value_type;

    // ---- step.cc
    /// The attempt the stimulus speaks of, when the job still listens to it.
    Attempt* current(const AttemptId& id);
    Attempt& last() { return job_.attempts.back(); }
    bool is_elastic() const { return job_.spec.node.elastic.has_value(); }
    bool is_stopping() const { return job_.stop_requested || job_.max_wait_over; }
    std::string warned(std::string_view message) const;
    void stop(std::string message);
    Ending ending_of(const Attempt& attempt) const;
    Ending stopped_ending() const;
    void end(const Ending& ending, Instant at);
    void enter(Secondary secondary, std::string message, Instant at);
    void say(std::string message);
    void condense();

    // ---- step_attempts.cc
    void begin_attempt(int number);
    std::int64_t next_epoch();
    void next_attempt();
    void end_attempt(Attempt& attempt, Instant at);
    /// The attempt ends before the job does: everybody leaves, another attempt follows.
    void interrupt(Attempt& attempt, const std::string& host, const std::string& why,
                   milliseconds notice);
    /// An error of ours: another attempt while there are retries left; false when there are none.
    bool retry(Attempt& attempt, const std::string& why);
    /// A node is lost before anything trained; false when that has happened too often.
    bool bear_fruitless(Attempt& attempt);
    void leave(Node& node, milliseconds notice, const std::string& why);
    void tell_stop(Attempt& attempt, Node& node);
    void tell_others_to_stop(Attempt& attempt);
    void forget_unlaunched(Attempt& attempt, plan::Outcome::Kind as);
    /// After a node ended: the attempt or the job may be over with it.
    void settle(Attempt& attempt, Instant at);
    void launch_failed_for_all(Attempt& attempt, const std::string& reason);

    // ---- step_nodes.cc
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::AgentUp&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::PhaseChanged&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::Finished&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::Collected&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::CheckpointCommitted&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::CheckpointRestored&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::GenerationChanged&);
    void apply(Attempt&, NodeEntry&, const plan::Event&, const plan::Progress&);
    void fail(Attempt& attempt, const std::string& node);
    void lose_node(Attempt& attempt, NodeEntry& entry, const std::string& how);
    void lose_network(Attempt& attempt, const std::string& how);
    void settle_results(Attempt& attempt);
    plan::Phase phase_of(const Attempt& attempt) const;
    void show(Attempt& attempt, const std::string& message, Instant at);

    // ---- step_elastic.cc
    void add_node(Attempt& attempt, const std::string& host, std::int64_t epoch);
    /// Nodes are finishing for good: nobody is replaced any more.
    bool is_concluding(const Attempt& attempt) const;
    void refill(Attempt& attempt);
    /// A node of an elastic attempt has ended without a result.
    void drop_node(Attempt& attempt, NodeEntry& entry, const std::string& why, bool announced,
                   Instant at);
    std::string crew_message(const Attempt& attempt) const;
    void shrink(Attempt& attempt);

    // ---- step_faults.cc
    std::vector<std::string> faultable(const Attempt& attempt) const;
    void fault(Attempt& attempt, const Fault& fault, const std::string& node);
    void kill_overstayers(Attempt& attempt);
    void scheduled_fault();

    Job job_;
    const Instant now_;
    std::vector<Effect> effects_;
    bool changed_ = false;  // something a client can see
    bool noted_ = false;    // only our own bookkeeping
};

}  // namespace ty::jobs
