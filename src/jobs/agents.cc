// SPDX-License-Identifier: Apache-2.0
// The agent's side of JobService: who is calling, what it is to do, what it has to say.
#include "base/error.h"
#include "jobs/impl.h"
#include "jobs/token.h"

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr milliseconds kLongestWait{60'000};
constexpr std::uint64_t kStopCommand = 1;  // the only command there is has this number

plan::NodePlan compose(const Job& job, const AttemptId& attempt, const std::string& host,
                       const Placing& placing) {
    plan::NodePlan plan = job.spec.node;
    plan.version = plan::kPlanVersion;
    plan.attempt = attempt;
    plan.job_name = job.spec.name;
    plan.job_arn = job.spec.arn;
    plan.region = job.spec.region;
    plan.account = job.spec.account;
    if (plan.endpoint.empty()) plan.endpoint = placing.control_plane;
    if (placing.credentials) plan.credentials = placing.credentials(attempt);
    plan.hosts = hosts_of(job.spec);
    plan.host = host;
    // The same on every call: an agent that asks again goes on with the stream it has.
    const auto epoch = std::chrono::floor<seconds>(job.created).time_since_epoch().count();
    plan.stream = fmt::format("{}/{}-{}", job.spec.name, host, epoch);
    return plan;
}

}  // namespace

std::optional<JobService::AgentIdentity> JobService::authenticate(const std::string& token) const {
    const auto owner = check_token(impl_->secret, token);
    if (!owner) return std::nullopt;
    const auto live = impl_->live.find(owner->attempt);
    if (!live || !live->has_host(owner->host)) return std::nullopt;
    return AgentIdentity{owner->attempt, owner->host, live->region, live->name};
}

plan::NodePlan JobService::plan_for(const AgentIdentity& agent) const {
    const auto live = impl_->live.find(agent.attempt);
    const Cached found = live ? impl_->find(live->job) : Cached{};
    if (found.job == nullptr)
        throw_error(Code::not_found, "", "attempt {} is over; nothing is left to do",
                    agent.attempt.str());
    return compose(*found.job, agent.attempt, agent.host, impl_->placing);
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
    if (waited.stop && request.commands_seen < kStopCommand) {
        const auto live = impl_->live.find(agent.attempt);
        const Cached found = live ? impl_->find(live->job) : Cached{};
        if (found.job != nullptr) {
            reply.command_number = kStopCommand;
            reply.command = plan::Stop{found.job->spec.node.limits.stop_grace};
        }
    }
    return reply;
}

std::optional<plan::Credentials> JobService::attempt_credentials(
    const std::string& access_key) const {
    const auto attempt = impl_->live.find_access_key(access_key);
    if (!attempt || !impl_->placing.credentials) return std::nullopt;
    return impl_->placing.credentials(*attempt);
}

}  // namespace ty::jobs
