// SPDX-License-Identifier: Apache-2.0
// The agent's side of JobService: who is calling, what it is to do, what it has to say.
#include "base/error.h"
#include "jobs/impl.h"
#include "jobs/token.h"

#include <algorithm>
#include <set>

namespace ty::jobs {

namespace {

constexpr milliseconds kLongestWait{60'000};

/// The hosts of the attempt; of an elastic one, those that are wanted now.
std::vector<std::string> current_hosts(const Attempt& attempt) {
    std::set<std::string> hosts;
    for (const auto& [name, node] : attempt.nodes)
        if (attempt.agents.empty() || (!node.finished && !node.released)) hosts.insert(node.host);
    return {hosts.begin(), hosts.end()};
}

plan::NodePlan compose(const Job& job, const Attempt& attempt, const Node& node,
                       const std::string& secret, const Placing& placing) {
    plan::NodePlan plan = job.spec.node;
    plan.version = plan::kPlanVersion;
    plan.attempt = attempt.id;
    plan.attempt_number = attempt.number;
    plan.job_name = job.spec.name;
    plan.job_arn = job.spec.arn;
    plan.region = job.spec.region;
    plan.account = job.spec.account;
    if (plan.endpoint.empty()) plan.endpoint = placing.control_plane;
    if (placing.credentials) plan.credentials = placing.credentials(attempt.id);
    plan.hosts = current_hosts(attempt);
    plan.host = node.host;
    for (const plan::InstanceGroup& group : plan.groups) {
        if (std::ranges::find(group.hosts, node.host) == group.hosts.end()) continue;
        plan.instance_group = group.name;
        plan.instance_type = group.instance_type;
    }
    if (plan.elastic) plan.elastic->token = make_rendezvous_token(secret, attempt.id);
    const milliseconds left = runtime_left(job, node.wanted);
    plan.limits.max_runtime = std::max(seconds(1), std::chrono::ceil<seconds>(left));
    // The same on every call: an agent that asks again goes on with the stream it has.
    plan.stream = fmt::format("{}/{}-{}", job.spec.name, node.host, node.epoch);
    return plan;
}

}  // namespace

std::optional<JobService::AgentIdentity> JobService::authenticate(const std::string& token) const {
    const auto owner = check_token(impl_->secret, token);
    if (!owner) return std::nullopt;
    const auto live = impl_->live.find(owner->attempt);
    if (!live || live->released || !live->has_node(owner->host)) return std::nullopt;
    return AgentIdentity{owner->attempt, owner->host, live->region, live->name};
}

plan::NodePlan JobService::plan_for(const AgentIdentity& agent) const {
    const auto live = impl_->live.find(agent.attempt);
    const Cached found = live ? impl_->find(live->job) : Cached{};
    if (found.job != nullptr && found.job->attempts.back().id == agent.attempt) {
        const Attempt& attempt = found.job->attempts.back();
        if (const auto node = attempt.nodes.find(agent.host); node != attempt.nodes.end())
            return compose(*found.job, attempt, node->second, impl_->secret, impl_->placing);
    }
    throw_error(Code::not_found, "", "attempt {} is over; nothing is left to do for {}",
                agent.attempt.str(), agent.host);
}

plan::SyncReply JobService::sync(const AgentIdentity& agent, const plan::SyncRequest& request,
                                 const std::stop_token& stop) {
    if (request.host != agent.host)
        throw_error(Code::invalid, "", "the sync is from host \"{}\" and the token is for \"{}\"",
                    request.host, agent.host);
    plan::SyncReply reply;
    std::vector<Stimulus> stimuli;
    for (const plan::Event& event : request.events) {
        if (event.host != agent.host)
            throw_error(Code::invalid, "", "event {} is of host \"{}\" and the token is for \"{}\"",
                        event.seq, event.host, agent.host);
        reply.acknowledged = std::max(reply.acknowledged, event.seq);
        stimuli.push_back(AgentEvent{agent.attempt, event});
    }
    if (!stimuli.empty()) {
        const auto live = impl_->live.find(agent.attempt);
        if (live) impl_->apply(live->job, stimuli);
    }
    const Waited waited =
        impl_->live.wait(agent.attempt, agent.host, request.commands_seen,
                         Deadline::in(std::min(request.wait, kLongestWait)), stop);
    reply.acknowledged = std::max(reply.acknowledged, waited.seen);
    reply.gone = waited.gone;
    reply.command_number = waited.number;
    reply.command = waited.command;
    return reply;
}

std::optional<plan::Credentials> JobService::attempt_credentials(
    const std::string& access_key) const {
    const auto attempt = impl_->live.find_access_key(access_key);
    if (!attempt || !impl_->placing.credentials) return std::nullopt;
    return impl_->placing.credentials(*attempt);
}

}  // namespace ty::jobs
