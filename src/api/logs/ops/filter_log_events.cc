// SPDX-License-Identifier: Apache-2.0
// Events of several streams, interleaved by time. A page's token is the place of its last event in
// that order (time, stream, line), so a later page neither repeats nor skips one whatever was added
// since.
#include "api/logs/event_json.h"
#include "api/logs/filter_pattern.h"
#include "api/logs/input.h"
#include "api/logs/ops.h"
#include "api/logs/page_token.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace ty::api::logs {

namespace {

using telemetry::LogEvent;
using telemetry::LogStore;
using telemetry::StreamId;

constexpr std::size_t kMostBytes = 1u << 20;
constexpr std::size_t kEventShare = 26;
/// Text looked through for one page; a page may be short of events, or empty, and still have a
/// token.
constexpr std::size_t kMostScanned = 64u << 20;

struct Place {
    Instant time;
    std::string stream;
    std::uint64_t index = 0;
    auto operator<=>(const Place&) const = default;
};

std::string place_token(const Place& place) {
    return page_token("filter",
                      format("{}:{}:{}", to_epoch_millis(place.time), place.index, place.stream));
}

std::optional<Place> read_place(const std::optional<std::string>& token) {
    if (!token) return std::nullopt;
    const std::string text = read_page_token("filter", token);
    const auto first = text.find(':');
    const auto second = first == std::string::npos ? first : text.find(':', first + 1);
    if (second == std::string::npos) refuse_token();
    const auto time = parse_int(std::string_view(text).substr(0, first));
    const auto index = parse_int(std::string_view(text).substr(first + 1, second - first - 1));
    if (!time || !index || *time < -(1LL << 51) || *time > 1LL << 51 || *index < 0) refuse_token();
    return Place{from_epoch_millis(*time), text.substr(second + 1), std::uint64_t(*index)};
}

/// One stream's events from a place on, read in pieces.
class Source {
public:
    Source(const LogStore& store, StreamId id, const LogStore::Range& range,
           const std::optional<Place>& after, std::size_t piece)
        : store_(store), id_(std::move(id)), range_(range), piece_(piece) {
        if (!after) return;
        if (id_.stream == after->stream)
            next_ = after->index + 1;
        else
            next_ = store_.index_at(
                id_, id_.stream < after->stream ? after->time + milliseconds(1) : after->time);
    }
    const std::string& stream() const { return id_.stream; }
    /// The event the source stands on; nullptr at its end.
    const LogEvent* front() {
        if (at_ < events_.size()) return &events_[at_];
        if (ended_) return nullptr;
        events_ = store_.read(id_, next_, LogStore::Direction::forward, piece_, range_);
        at_ = 0;
        if (events_.empty()) {
            ended_ = true;
            return nullptr;
        }
        next_ = events_.back().index + 1;
        return &events_.front();
    }
    void pop() { ++at_; }

private:
    const LogStore& store_;
    StreamId id_;
    LogStore::Range range_;
    std::size_t piece_;
    std::uint64_t next_ = 0;
    std::vector<LogEvent> events_;
    std::size_t at_ = 0;
    bool ended_ = false;
};

/// 56 digits like AWS's: time, stream, line. The same event has the same one in every answer.
std::string event_id(const LogEvent& event, std::uint64_t stream_digest) {
    return format("{:014}{:020}{:022}", std::max(0LL, to_epoch_millis(event.time)), stream_digest,
                  event.index);
}

std::uint64_t digest_of(std::string_view stream) {
    std::uint64_t value = 0;
    const Sha256Digest digest = sha256(stream);
    for (std::size_t i = 0; i < 8; ++i) value = value << 8 | std::uint64_t(digest[i]);
    return value;
}

void append_event(std::string& out, const LogEvent& event, const std::string& stream) {
    if (out.back() == '}') out += ',';
    out += R"({"logStreamName":)";
    append_json_string(out, stream);
    out += format(R"(,"timestamp":{},"message":)", to_epoch_millis(event.time));
    append_json_string(out, event.text);
    out += format(R"(,"ingestionTime":{},"eventId":"{}"}})", to_epoch_millis(event.ingested),
                  event_id(event, digest_of(stream)));
}

struct Page {
    std::string events = R"({"events":[)";
    std::optional<Place> more;  ///< set when there may be more behind it
    std::size_t count = 0;
};

Page merge(std::vector<Source>& sources, const FilterPattern& pattern, std::size_t limit) {
    using Head = std::tuple<Instant, std::string_view, std::size_t>;  // time, stream, source
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
    for (std::size_t i = 0; i < sources.size(); ++i)
        if (const LogEvent* event = sources[i].front())
            heads.emplace(event->time, sources[i].stream(), i);
    Page page;
    Place last;
    std::size_t bytes = 0, scanned = 0;
    while (!heads.empty()) {
        if (page.count == limit || bytes > kMostBytes || scanned > kMostScanned) {
            page.more = std::move(last);
            break;
        }
        Source& source = sources[std::get<2>(heads.top())];
        const std::size_t number = std::get<2>(heads.top());
        heads.pop();
        const LogEvent& event = *source.front();
        scanned += event.text.size() + kEventShare;
        if (pattern.matches(event.text)) {
            append_event(page.events, event, source.stream());
            bytes += event.text.size() + kEventShare;
            ++page.count;
        }
        last = {event.time, source.stream(), event.index};
        source.pop();
        if (const LogEvent* next = source.front())
            heads.emplace(next->time, source.stream(), number);
    }
    return page;
}

std::vector<std::string> streams_to_search(const LogStore& store, const std::string& group,
                                           const std::vector<std::string>& names,
                                           const std::optional<std::string>& prefix,
                                           const std::optional<Instant>& start) {
    if (names.empty()) {
        if (!start) return store.stream_names(group, prefix.value_or(""));
        // Lines arrive at most hours before their own time (PutLogEvents takes two).
        return store.streams_by_activity(group, prefix.value_or(""),
                                         *start - std::chrono::hours(3));
    }
    std::vector<std::string> found;
    for (const std::string& name : names) {
        if (!store.find_stream({group, name}))
            throw_error(Code::not_found, "ResourceNotFoundException",
                        "The specified log stream does not exist.");
        if (std::ranges::find(found, name) == found.end()) found.push_back(name);
    }
    return found;
}

}  // namespace

std::string filter_log_events(Call& call) {
    Input input(call);
    const std::string group = input.group();
    const std::vector<std::string> names = input.stream_names("logStreamNames");
    const auto prefix = input.stream_name("logStreamNamePrefix", Need::optional);
    const LogStore::Range range{input.time("startTime"), input.time("endTime")};
    const auto token = input.text("nextToken", Need::optional, 4096);
    const auto limit = std::size_t(input.number("limit", 1, 10'000).value_or(10'000));
    const auto pattern_text = input.filter_pattern();
    input.done();
    if (!names.empty() && prefix)
        throw_error(Code::invalid, "InvalidParameterException",
                    "logStreamNames and logStreamNamePrefix cannot be given together");
    const FilterPattern pattern(pattern_text);
    const std::optional<Place> after = read_place(token);
    require_group(call, group);
    const LogStore& store = call.services.logs;
    const auto streams = streams_to_search(store, group, names, prefix, range.start);
    const std::size_t piece = std::clamp<std::size_t>(20'000 / (streams.size() + 1), 16, 2000);
    std::vector<Source> sources;
    sources.reserve(streams.size());
    for (const std::string& stream : streams)
        sources.emplace_back(store, StreamId{group, stream}, range, after, piece);
    Page page = merge(sources, pattern, limit);
    std::string out = std::move(page.events) + R"(],"searchedLogStreams":[)";
    for (std::size_t i = 0; i < std::min<std::size_t>(streams.size(), 100); ++i) {
        out += i == 0 ? R"({"logStreamName":)" : R"(,{"logStreamName":)";
        append_json_string(out, streams[i]);
        out += format(R"(,"searchedCompletely":{}}})", !page.more);
    }
    out += ']';
    if (page.more) out += format(R"(,"nextToken":"{}")", place_token(*page.more));
    return out + '}';
}

}  // namespace ty::api::logs
