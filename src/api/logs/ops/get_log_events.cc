// SPDX-License-Identifier: Apache-2.0
// Tokens are line numbers: "f/<first line of the next page>" and "b/<first line of this page>".
// They never expire, and at the end of a stream the forward token stays the same, which is how
// clients know.
#include "api/logs/event_json.h"
#include "api/logs/input.h"
#include "api/logs/ops.h"
#include "api/logs/page_token.h"
#include "base/text.h"

namespace ty::api::logs {

namespace {

using telemetry::LogStore;

struct Position {
    LogStore::Direction direction;
    std::uint64_t index;
};

Position read_position(const std::string& token) {
    const bool forward = token.starts_with("f/");
    const std::string_view digits =
        std::string_view(token).substr(std::min<std::size_t>(2, token.size()));
    const bool plain = !digits.empty() && digits.size() <= 20 &&
                       digits.find_first_not_of("0123456789") == std::string_view::npos;
    const auto index = plain ? parse_int(digits) : std::nullopt;
    if ((!forward && !token.starts_with("b/")) || !index) refuse_token();
    return {forward ? LogStore::Direction::forward : LogStore::Direction::backward,
            std::uint64_t(*index)};
}

std::string token_of(char direction, std::uint64_t index) {
    return format("{}/{:020}", direction, index);
}

std::string page_json(const std::vector<telemetry::LogEvent>& events, std::uint64_t forward,
                      std::uint64_t backward) {
    std::size_t bytes = 256;
    for (const telemetry::LogEvent& event : events) bytes += event.text.size() + 80;
    std::string out;
    out.reserve(bytes);
    out += R"({"events":[)";
    for (const telemetry::LogEvent& event : events) {
        if (out.back() == '}') out += ',';
        fmt::format_to(std::back_inserter(out), R"({{"timestamp":{},"message":)",
                       to_epoch_millis(event.time));
        append_json_string(out, event.text);
        fmt::format_to(std::back_inserter(out), R"(,"ingestionTime":{}}})",
                       to_epoch_millis(event.ingested));
    }
    out += format(R"(],"nextForwardToken":"{}","nextBackwardToken":"{}"}})", token_of('f', forward),
                  token_of('b', backward));
    return out;
}

}  // namespace

std::string get_log_events(Call& call) {
    Input input(call);
    const std::string group = input.group();
    const std::string stream = input.stream_name("logStreamName", Need::required).value_or("");
    const LogStore::Range range{input.time("startTime"), input.time("endTime")};
    const auto token = input.text("nextToken", Need::optional, 4096);
    const auto limit = std::size_t(input.number("limit", 1, 10'000).value_or(10'000));
    const bool from_head = input.flag("startFromHead");
    input.done();
    const telemetry::StreamId id{group, stream};
    const LogStore& store = call.services.logs;
    constexpr auto kForward = LogStore::Direction::forward;
    // Where a page without events stands: also what its tokens repeat.
    Position at{kForward, 0};
    if (token) {
        at = read_position(*token);
    } else if (from_head) {
        at.index = range.start ? store.index_at(id, *range.start) : 0;
    } else {
        const auto info = store.find_stream(id);
        at = {LogStore::Direction::backward, range.end ? store.index_at(id, *range.end)
                                             : info    ? info->next_index
                                                       : 0};
    }
    const auto events = store.read(id, at.index, at.direction, limit, range);
    const std::uint64_t forward = events.empty() ? at.index : events.back().index + 1;
    const std::uint64_t backward = events.empty() ? at.index : events.front().index;
    return page_json(events, forward, backward);
}

}  // namespace ty::api::logs
