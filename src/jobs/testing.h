// SPDX-License-Identifier: Apache-2.0
// For tests of the life cycle: a job that is told stimuli at given times, with its events numbered
// per node as agents number them.
#pragma once

#include "base/text.h"
#include "jobs/jobs.h"

namespace ty::jobs::testing {

inline Instant at(long long millis) {
    return from_epoch_millis(1'762'116'564'000 + millis);
}

inline Job fresh(JobSpec spec) {
    Job job;
    job.id = JobId("j-test");
    job.version = 0;
    job.spec = std::move(spec);
    job.spec.name = "Job";
    return step(job, Created{}, at(0)).job;
}

inline JobSpec fixed(int hosts) {
    JobSpec spec;
    spec.instance_count = hosts;
    return spec;
}

inline JobSpec spot(int hosts) {
    JobSpec spec = fixed(hosts);
    spec.spot = true;
    return spec;
}

inline JobSpec elastic(int from, int least, int most) {
    JobSpec spec = fixed(from);
    spec.node.elastic = plan::Elastic{least, most, 3, ""};
    return spec;
}

struct Story {
    Job job;
    std::map<std::string, std::uint64_t> seq;  // "<attempt> <node>"
    std::vector<Effect> effects;
    long long now = 0;

    explicit Story(int hosts = 1) : job(fresh(fixed(hosts))) {}
    explicit Story(JobSpec spec) : job(fresh(std::move(spec))) {}

    const Attempt& attempt() const { return job.attempts.back(); }
    const Node& node(const std::string& name) const { return attempt().nodes.at(name); }
    Story& tell(const Stimulus& stimulus) {
        Stepped stepped = step(std::move(job), stimulus, at(now));
        job = std::move(stepped.job);
        effects = std::move(stepped.effects);
        return *this;
    }
    Story& event(plan::Payload payload, const std::string& node = "algo-1") {
        const AttemptId id = attempt().id;
        plan::Event event{++seq[id.str() + " " + node], at(now), node, std::move(payload)};
        return tell(AgentEvent{id, event});
    }
    Story& phase(plan::Phase phase, const std::string& node = "algo-1",
                 const std::string& message = {}) {
        return event(plan::PhaseChanged{phase, message}, node);
    }
    Story& finish(plan::Outcome::Kind kind, const std::string& node = "algo-1",
                  const std::string& reason = {}, std::optional<int> code = {}) {
        return event(plan::Finished{{kind, reason, code}, true}, node);
    }
    Story& gone(const std::string& node = "algo-1", const std::string& ending = "SIGKILL") {
        return tell(AgentGone{attempt().id, node, ending});
    }
    Story& placed() { return tell(Placed{attempt().id}); }
    Story& released() { return tell(Released{attempt().id}); }
    Story& fault(Fault::Kind kind, const std::string& host, long long millis = 30'000) {
        return tell(FaultRequested{Fault{kind, host, milliseconds(millis), "test"}});
    }
    /// All of them are placed, up and training.
    Story& train() {
        placed();
        const auto nodes = attempt().nodes;
        for (const auto& [name, node] : nodes)
            if (!node.finished && node.phase != plan::Phase::training)
                phase(plan::Phase::training, name);
        return *this;
    }
    Story& wait(long long millis) {
        now += millis;
        return *this;
    }
    template <typename T>
    bool has() const {
        for (const Effect& effect : effects)
            if (std::holds_alternative<T>(effect)) return true;
        return false;
    }
    /// The newest command of a node, as "Interrupt", "" for none.
    std::string command(const std::string& name) const {
        if (node(name).commands.empty()) return {};
        struct Name {
            std::string operator()(const plan::Stop&) const { return "Stop"; }
            std::string operator()(const plan::Interrupt&) const { return "Interrupt"; }
            std::string operator()(const plan::Freeze&) const { return "Freeze"; }
            std::string operator()(const plan::Partition&) const { return "Partition"; }
            std::string operator()(const plan::Finish& f) const {
                return "Finish " + join(f.parts, "+");
            }
        };
        return std::visit(Name{}, node(name).commands.back());
    }
    std::string path() const {
        std::string text;
        for (const Transition& t : job.transitions)
            text.append(text.empty() ? "" : " ").append(to_string(t.status));
        return text;
    }
    /// The nodes that run, and what the job says.
    std::string names() const {
        std::string text;
        for (const auto& [name, node] : attempt().nodes)
            if (!node.finished) text.append(text.empty() ? "" : " ").append(name);
        return text;
    }
    const std::string& message() const { return job.transitions.back().message; }
};

}  // namespace ty::jobs::testing
