// SPDX-License-Identifier: Apache-2.0
// Programs may write logs of their own. Events far in the past or future are left out and counted,
// as on AWS; a stream of a job's own output is numbered by the job's agent, so nobody else may add
// to it.
#include "api/logs/input.h"
#include "api/logs/ops.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

namespace ty::api::logs {

namespace {

constexpr std::size_t kMostBytes = 1'048'576;
constexpr std::size_t kEventShare = 26;
constexpr std::chrono::hours kTooNew{2};
constexpr std::chrono::hours kTooOld{14 * 24};

/// "<job>/algo-<n>-<epoch>" in the group of training jobs.
bool is_of_agent(const std::string& group, std::string_view stream) {
    if (group != telemetry::kTrainingJobs) return false;
    const auto slash = stream.find('/');
    return slash != std::string_view::npos && stream.substr(slash + 1).starts_with("algo-");
}

void check_batch(const std::vector<Input::Event>& events) {
    std::size_t bytes = 0;
    Instant previous;
    for (const Input::Event& event : events) {
        bytes += event.message.size() + kEventShare;
        if (event.time < previous)
            throw_error(
                Code::invalid, "InvalidParameterException",
                "Log events in a single PutLogEvents request must be in chronological order.");
        previous = event.time;
    }
    if (bytes > kMostBytes)
        throw_error(Code::invalid, "InvalidParameterException",
                    "Upload too large: {} bytes exceeds limit of {}", bytes, kMostBytes);
}

}  // namespace

std::string put_log_events(Call& call) {
    Input input(call);
    const std::string group = input.group_name("logGroupName", Need::required).value_or("");
    const std::string stream = input.stream_name("logStreamName", Need::required).value_or("");
    const std::vector<Input::Event> events = input.events("logEvents");
    input.done();
    check_batch(events);
    require_group(call, group);
    telemetry::LogStore& store = call.services.logs;
    if (!store.find_stream({group, stream}))
        throw_error(Code::not_found, "ResourceNotFoundException",
                    "The specified log stream does not exist.");
    if (is_of_agent(group, stream))
        throw_error(Code::invalid, "InvalidParameterException",
                    "The log stream {} belongs to a training job and takes that job's output only; "
                    "create a log stream of another name",
                    stream);
    const Instant now = call.services.clock.now();
    std::vector<telemetry::LogLine> lines;
    std::size_t too_old = 0, too_new = events.size();
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (events[i].time < now - kTooOld) {
            too_old = i + 1;
        } else if (events[i].time > now + kTooNew) {
            too_new = std::min(too_new, i);
        } else {
            lines.push_back({.time = events[i].time, .text = events[i].message});
        }
    }
    const std::uint64_t next = store.append({group, stream}, lines);
    Json answer;
    answer["nextSequenceToken"] = format("{:056}", next);
    if (too_old > 0) answer["rejectedLogEventsInfo"]["tooOldLogEventEndIndex"] = too_old;
    if (too_new < events.size())
        answer["rejectedLogEventsInfo"]["tooNewLogEventStartIndex"] = too_new;
    return dump_json(answer);
}

}  // namespace ty::api::logs
