// SPDX-License-Identifier: Apache-2.0
// The agent protocol (src/plan/README.md): plan down, events and log lines up. A bearer token says
// which attempt and host is speaking; it sees and writes nothing else.
#include "api/agent/log_frames.h"
#include "api/api.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::api {

namespace {

using namespace literals;

constexpr Bytes kSyncLimit = 4_MiB;
constexpr Bytes kLogsLimit = 32_MiB;

using Identity = jobs::JobService::AgentIdentity;

http::Response reply(int status, std::string body) {
    http::Response response;
    response.status = status;
    response.headers.set("Content-Type", "application/json");
    response.body = std::move(body);
    return response;
}

http::Response failure(int status, std::string_view reason, std::string_view message) {
    Json json = Json::object();
    json["reason"] = reason;
    json["message"] = message;
    return reply(status, dump_json(json));
}

/// What the agent may do about it: repeat (5xx), or not (4xx).
int status_of(const Error& error) {
    switch (error.code()) {
        case Code::invalid:
        case Code::corrupt:
        case Code::unsupported:
            return 400;
        case Code::denied:
            return 403;
        case Code::not_found:
            return 404;
        case Code::conflict:
            return 409;
        case Code::exhausted:
            return error.reason() == "EntityTooLarge" ? 413 : 507;
        case Code::unavailable:
        case Code::timed_out:
        case Code::cancelled:
            return 503;
        case Code::internal:
            return 500;
    }
    return 500;
}

std::optional<Identity> identify(const Services& services, const http::Request& request) {
    constexpr std::string_view kScheme = "Bearer ";
    const std::string_view header = request.headers.get("authorization");
    if (!header.starts_with(kScheme)) return std::nullopt;
    return services.jobs.authenticate(std::string(trim(header.substr(kScheme.size()))));
}

std::string group() {
    return std::string(telemetry::kTrainingJobs);
}

/// A client that sees the end of a job reads its metrics and logs once more and leaves, and one
/// that follows several hosts shows nothing before it knows a stream of each: so streams exist for
/// all nodes as soon as one is up, and metrics are complete before the end is known.
void prepare(Services& services, const Identity& agent, const jobs::Job& job,
             const std::vector<plan::Event>& events) {
    bool up = false;
    bool finished = false;
    for (const plan::Event& event : events) {
        up |= std::holds_alternative<plan::AgentUp>(event.payload);
        finished |= std::holds_alternative<plan::Finished>(event.payload);
    }
    const auto stream = [&](const std::string& node) {
        return telemetry::StreamId{
            group(),
            services.jobs.plan_for({agent.attempt, node, agent.region, agent.job_name}).stream};
    };
    if ((up || finished) && !services.logs.find_stream(stream(agent.host))) {
        services.logs.create_stream(stream(agent.host));
        for (const auto& [node, state] : job.attempts.back().nodes)
            if (!state.released) services.logs.create_stream(stream(node));
    }
    if (finished) services.tap.drain(group(), agent.job_name);
}

http::Response sync(Services& services, const http::Request& request, const Identity& agent) {
    const plan::SyncRequest message =
        plan::sync_request_from_json(request.body->read_all(kSyncLimit));
    // An attempt whose job was removed meanwhile has nobody to prepare for.
    if (!message.events.empty())
        if (const auto job = services.jobs.find(agent.region, agent.job_name))
            prepare(services, agent, *job, message.events);
    return reply(200, plan::to_json(services.jobs.sync(agent, message, request.stop)));
}

http::Response logs(Services& services, const http::Request& request, const Identity& agent) {
    std::string stream;
    std::optional<long long> first;
    for (const auto& [name, value] : parse_query(request.query)) {
        if (name == "stream") stream = value;
        if (name == "first") first = parse_int(value);
    }
    const std::string own = services.jobs.plan_for(agent).stream;
    if (stream != own)
        throw_error(Code::denied, "OtherStream",
                    "stream \"{}\" is not this agent's; it writes \"{}\"", to_valid_utf8(stream),
                    own);
    if (!first || *first < 0)
        throw_error(Code::invalid, "MalformedLogs", "first must be the index of the first line");
    const auto lines = parse_log_frames(request.body->read_all(kLogsLimit));
    const std::uint64_t next =
        services.logs.append({group(), own}, static_cast<std::uint64_t>(*first), lines);
    return reply(200, fmt::format("{{\"next\":{}}}", next));
}

http::Response dispatch(Services& services, const http::Request& request) {
    const auto agent = identify(services, request);
    if (!agent)
        return failure(401, "TokenNotValid",
                       "the token is unknown or its attempt is over; clean up");
    if (request.path == "/agent/v1/plan" && request.method == "GET")
        return reply(200, plan::to_json(services.jobs.plan_for(*agent)));
    if (request.path == "/agent/v1/sync" && request.method == "POST")
        return sync(services, request, *agent);
    if (request.path == "/agent/v1/logs" && request.method == "POST")
        return logs(services, request, *agent);
    return failure(404, "NoSuchCall", "the calls are GET plan, POST sync and POST logs");
}

}  // namespace

http::Response serve_agent(Services& services, http::Request& request) {
    try {
        return dispatch(services, request);
    } catch (const Error& error) {
        const int status = status_of(error);
        if (status >= 500)
            log::error("an agent could not be served",
                       {{"path", to_valid_utf8(request.path)}, {"error", error.what()}});
        else
            log::warning("an agent was refused",
                         {{"path", to_valid_utf8(request.path)}, {"error", error.what()}});
        return failure(status, error.reason(), error.what());
    }
}

}  // namespace ty::api
