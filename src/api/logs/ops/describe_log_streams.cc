// SPDX-License-Identifier: Apache-2.0
// SDK v2 repeats this call without the token it was given for as long as there is one, so a prefix
// with at most 50 streams is answered whole, whatever the limit says, and a job's own ("<job>/")
// also with more: every attempt of every host has a stream.
#include "api/logs/input.h"
#include "api/logs/ops.h"
#include "api/logs/page_token.h"
#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ty::api::logs {

namespace {

constexpr std::size_t kMost = 50;
constexpr std::size_t kMostOfJob = 10'000;

Json stream_json(const Call& call, const telemetry::StreamInfo& info) {
    Json out;
    out["logStreamName"] = info.id.stream;
    out["creationTime"] = to_epoch_millis(info.created);
    if (info.first_event) out["firstEventTimestamp"] = to_epoch_millis(*info.first_event);
    if (info.last_event) out["lastEventTimestamp"] = to_epoch_millis(*info.last_event);
    if (info.last_ingestion) out["lastIngestionTime"] = to_epoch_millis(*info.last_ingestion);
    out["uploadSequenceToken"] = format("{:056}", info.next_index);
    out["arn"] = group_arn(call, info.id.group) + ":log-stream:" + info.id.stream;
    out["storedBytes"] = 0;  // as AWS answers since 2019
    return out;
}

/// All names in the order asked for. Ascending by name is the one order that needs no full list.
std::vector<std::string> ordered_names(const telemetry::LogStore& store, const std::string& group,
                                       const std::string& prefix, bool by_time, bool descending) {
    std::vector<std::string> names =
        by_time ? store.streams_by_activity(group, prefix) : store.stream_names(group, prefix);
    if (descending) std::ranges::reverse(names);
    return names;
}

}  // namespace

std::string describe_log_streams(Call& call) {
    Input input(call);
    const std::string group = input.group();
    const auto prefix = input.stream_name("logStreamNamePrefix", Need::optional);
    const std::string order =
        input.choice("orderBy", {"LogStreamName", "LastEventTime"}, "LogStreamName");
    const bool descending = input.flag("descending");
    const auto token = input.text("nextToken", Need::optional, 4096);
    std::size_t limit = std::size_t(input.number("limit", 1, kMost).value_or(kMost));
    input.done();
    const bool by_time = order == "LastEventTime";
    if (by_time && prefix)
        throw_error(Code::invalid, "InvalidParameterException",
                    "Cannot order by LastEventTime with a logStreamNamePrefix.");
    require_group(call, group);
    const telemetry::LogStore& store = call.services.logs;
    const std::string listing = "streams/" + order + (descending ? "/-" : "/+");
    const std::string after = read_page_token(listing, token);
    if (prefix && !token) {
        const std::size_t whole = prefix->ends_with('/') ? kMostOfJob : kMost;
        if (store.stream_names(group, *prefix, {}, whole + 1).size() <= whole) limit = whole;
    }
    std::vector<std::string> names;
    if (!by_time && !descending) {
        names = store.stream_names(group, prefix.value_or(""), after, limit + 1);
    } else {
        names = ordered_names(store, group, prefix.value_or(""), by_time, descending);
        if (!after.empty()) {
            const auto at = std::ranges::find(names, after);
            names.erase(names.begin(), at == names.end() ? at : std::next(at));
        }
    }
    Json answer;
    Json& streams = answer["logStreams"] = Json::array();
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i == limit) {
            answer["nextToken"] = page_token(listing, names[i - 1]);
            break;
        }
        if (const auto info = store.find_stream({group, names[i]}))
            streams.push_back(stream_json(call, *info));
    }
    return dump_json(answer);
}

}  // namespace ty::api::logs
