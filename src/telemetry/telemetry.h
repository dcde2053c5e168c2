// SPDX-License-Identifier: Apache-2.0
// Logs and metrics of jobs: append-only log streams with live followers, metric points, and the tap
// that turns log lines into metric points. Knows nothing of jobs or HTTP.
//
// Nothing is lost or doubled: a batch names the index of its first line, and lines already held are
// dropped; the tap's position and its points are committed together. All calls from any thread.
#pragma once

#include "base/time.h"
#include "store/store.h"
#include "sys/sys.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace ty::telemetry {

/// The log group of training jobs, as on AWS.
inline constexpr std::string_view kTrainingJobs = "/aws/sagemaker/TrainingJobs";

struct StreamId {
    std::string group;
    std::string stream;  ///< "<job>/algo-1-1762116564"
    auto operator<=>(const StreamId&) const = default;
};

struct LogLine {
    Instant time;
    std::string text;
};

/// A stored line: `index` counts from 0 and never changes.
struct LogEvent {
    std::uint64_t index = 0;
    Instant time;  ///< non-decreasing within a stream (clamped on append)
    Instant ingested;
    std::string text;
};

struct StreamInfo {
    StreamId id;
    Instant created;
    std::uint64_t next_index = 0;  ///< number of lines held
    std::uint64_t bytes = 0;
    std::optional<Instant> first_event, last_event, last_ingestion;
};

/// Consecutive lines as they lie on disk; valid during the call it is passed to.
struct LogBlock {
    struct Line {
        Instant time;
        std::uint32_t offset = 0, length = 0;  ///< within text
    };
    std::uint64_t first = 0;  ///< index of lines[0]
    Instant ingested;
    std::string_view text;  ///< the lines, each followed by '\n'
    std::vector<Line> lines;
    std::string_view line(std::size_t i) const {
        return text.substr(lines[i].offset, lines[i].length);
    }
};

class LogStore {
public:
    LogStore(const sys::fs::path& root, Clock& clock);
    ~LogStore();

    /// Idempotent.
    void create_group(const std::string& group);
    void create_stream(const StreamId& id);
    void delete_streams(const std::string& group, const std::string& stream_prefix);

    /// Append lines whose first has index `first`; those below next_index are dropped, a gap throws
    /// conflict ("SequenceGap"). Written (survives kill -9) on return. Creates the stream.
    /// Returns the new next_index. Throws exhausted on a full disk, with nothing half-written
    /// visible.
    std::uint64_t append(const StreamId& id, std::uint64_t first, std::span<const LogLine> lines);

    /// Append behind whatever the stream holds: for writers that keep no count of their own.
    std::uint64_t append(const StreamId& id, std::span<const LogLine> lines);

    struct Range {
        std::optional<Instant> start, end;  ///< start inclusive, end exclusive
    };
    enum class Direction { forward, backward };
    /// Up to `limit` events and ~1 MiB from index `from` on (forward: index >= from; backward:
    /// index < from, returned in ascending order). Throws not_found ("ResourceNotFoundException").
    std::vector<LogEvent> read(const StreamId& id, std::uint64_t from, Direction direction,
                               std::size_t limit, const Range& range = {}) const;
    /// Blocks holding the lines from index `from` on, about `max_bytes` of them; the first block
    /// may start before `from`. Returns the index after the last block, `from` when there is
    /// nothing new. Throws not_found.
    std::uint64_t scan(const StreamId& id, std::uint64_t from, std::size_t max_bytes,
                       const std::function<void(const LogBlock&)>& fn) const;
    /// Index of the first event at or after the instant.
    std::uint64_t index_at(const StreamId& id, Instant start) const;

    std::vector<std::string> groups(std::string_view prefix = {}) const;
    std::optional<Instant> group_created(const std::string& group) const;
    /// Names after `after`, sorted, at most `limit`; touches no file. Throws not_found as
    /// streams().
    std::vector<std::string> stream_names(const std::string& group, std::string_view prefix = {},
                                          std::string_view after = {},
                                          std::size_t limit = std::size_t(-1)) const;
    /// Names by the time their last line arrived (creation, when there is none), oldest first; only
    /// those with a line that arrived at or after `since`, when given.
    std::vector<std::string> streams_by_activity(const std::string& group,
                                                 std::string_view prefix = {},
                                                 std::optional<Instant> since = {}) const;
    /// Sorted by name. Throws not_found when the group does not exist.
    std::vector<StreamInfo> streams(const std::string& group, std::string_view prefix = {}) const;
    std::optional<StreamInfo> find_stream(const StreamId& id) const;

    /// Block until the stream has more than `index` lines, the deadline passes, or stop. Returns
    /// next_index.
    std::uint64_t wait_beyond(const StreamId& id, std::uint64_t index, Deadline by,
                              const std::stop_token& stop) const;

    /// Called after each successful append, on the appender's thread, with the stream. One
    /// subscriber.
    void on_append(std::function<void(const StreamId&)> fn);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct MetricId {
    std::string space;  ///< namespace
    std::string name;
    std::vector<std::pair<std::string, std::string>> dimensions;  ///< sorted by name
    auto operator<=>(const MetricId&) const = default;
};
struct MetricPoint {
    Instant time;
    double value = 0;
};
/// One period's aggregate.
struct Datapoint {
    Instant start;
    double sum = 0, minimum = 0, maximum = 0;
    std::uint64_t count = 0;
};

class MetricStore {
public:
    explicit MetricStore(store::Db& db);
    void put(const MetricId& id, std::span<const MetricPoint> points);
    /// Several series in one transaction: all or none.
    void put(std::span<const std::pair<MetricId, MetricPoint>> points);
    /// As put, inside the caller's transaction (the tap).
    static void put(store::Tx& tx, const MetricId& id, std::span<const MetricPoint> points);
    /// Aggregates in [start, end) per period, ascending; empty periods absent.
    std::vector<Datapoint> query(const MetricId& id, Instant start, Instant end,
                                 seconds period) const;
    std::vector<MetricId> list(std::string_view space, std::string_view name = {}) const;
    struct Listed {
        std::int64_t key = 0;  ///< rises with every new series
        MetricId id;
    };
    /// At most `limit` series with a key above `after`, by key; empty space or name: any.
    std::vector<Listed> list_after(std::int64_t after, std::size_t limit, std::string_view space,
                                   std::string_view name) const;
    /// The last point by arrival.
    std::optional<MetricPoint> last(const MetricId& id) const;

private:
    store::Db& db_;
};

struct MetricDefinition {
    std::string name;
    std::string regex;
};
/// Throws invalid naming definition and reason: empty, no RE2 syntax (look-around,
/// back-references), no capture group. Used at job creation.
void check_definition(const MetricDefinition& definition);

/// Applies definitions to the lines of a job's streams: every match's first group that reads as a
/// number becomes a point (namespace = group, dimension TrainingJobName = job).
class MetricTap {
public:
    MetricTap(LogStore& logs, store::Db& db);
    ~MetricTap();
    /// Watch all streams "<job>/…" of the group. Durable; a restart goes on where it stopped.
    void watch(const std::string& group, const std::string& job,
               std::vector<MetricDefinition> definitions);
    /// Process everything the job's streams hold now; returns when committed. Called before a job
    /// turns terminal.
    void drain(const std::string& group, const std::string& job);
    void forget(const std::string& group, const std::string& job);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// All regexes over one block of text at once; the tap's inner loop, public for the benchmark.
class LineMatcher {
public:
    explicit LineMatcher(std::span<const MetricDefinition> definitions);
    ~LineMatcher();
    LineMatcher(LineMatcher&&) noexcept;
    /// fn(definition index, value) for each definition that matches the line, its last match.
    void match(std::string_view line, const std::function<void(std::size_t, double)>& fn) const;
    /// The same over a block: fn(line within the block, definition index, value), in order of
    /// lines.
    void match_block(const LogBlock& block,
                     const std::function<void(std::size_t, std::size_t, double)>& fn) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::telemetry
