// SPDX-License-Identifier: Apache-2.0
// Exactly once: the points of a stretch of lines and the cursor behind it are one transaction.
// Between two commits the cursor moves in memory only; after a restart those lines are read again,
// and they had no matches. One thread ("metric-tap") serves all jobs; drain() does the same work on
// its caller's.
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "base/retry.h"
#include "base/sync.h"
#include "telemetry/telemetry.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ty::telemetry {
namespace {

/// Lines read per step; bounds memory and the length of one transaction.
constexpr std::size_t kStepBytes = 1u << 20;
/// Lines without a match after which the cursor is stored anyway, so that a restart reads little
/// again.
constexpr std::uint64_t kLazyLines = 200'000;
/// Between two rounds of the thread: many small appends become one transaction.
constexpr milliseconds kRound{100};

std::string definitions_text(std::span<const MetricDefinition> definitions) {
    Json list = Json::array();
    for (const MetricDefinition& d : definitions) list.push_back(Json::array({d.name, d.regex}));
    return dump_json(list);
}

std::vector<MetricDefinition> parse_definitions(const std::string& text) {
    std::vector<MetricDefinition> out;
    for (const Json& pair : parse_json(text))
        out.push_back(
            {.name = pair.at(0).get<std::string>(), .regex = pair.at(1).get<std::string>()});
    return out;
}

struct Cursor {
    std::uint64_t next = 0;    ///< first line not yet read
    std::uint64_t stored = 0;  ///< the same, as committed
};

/// One watched job. Whoever reads its lines holds `work` through claim(); nobody waits under a
/// lock.
struct Watch {
    struct Work {
        bool busy = false;
        bool forgotten = false;
        std::unique_ptr<LineMatcher> matcher;  ///< compiled on first use
        std::map<std::string, Cursor> cursors;
    };
    Watch(std::string in_group, std::string of_job, std::vector<MetricDefinition> with)
        : group(std::move(in_group)), job(std::move(of_job)), definitions(std::move(with)) {}

    const std::string group, job;
    const std::vector<MetricDefinition> definitions;
    Sync<Work> work;
};

/// Exclusive use of a watch's matcher and cursors.
class Claim {
public:
    explicit Claim(Watch& watch) : watch_(watch) {
        watch_.work.wait(
            Deadline::never(), std::stop_token(), [](const Watch::Work& w) { return !w.busy; },
            [this](Watch::Work& w) {
                w.busy = true;
                work_ = &w;
            });
    }
    ~Claim() {
        watch_.work.with([](Watch::Work& w) { w.busy = false; });
        watch_.work.notify();
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    Watch::Work& operator*() const { return *work_; }
    Watch::Work* operator->() const { return work_; }

private:
    Watch& watch_;
    Watch::Work* work_ = nullptr;
};

using WatchKey = std::pair<std::string, std::string>;  ///< group, job
using Watches = std::map<WatchKey, std::shared_ptr<Watch>>;

/// What on_append() leaves for the thread; outlives the tap, as an append may still be calling.
struct Inbox {
    std::set<WatchKey> watched;
    std::set<StreamId> dirty;
};

std::string job_of(std::string_view stream) {
    return std::string(stream.substr(0, stream.find('/')));
}

}  // namespace

struct MetricTap::Impl {
    Impl(LogStore& log_store, store::Db& database)
        : logs(log_store), db(database), inbox(std::make_shared<Sync<Inbox>>()) {}

    void load();
    void add(std::shared_ptr<Watch> watch);
    std::shared_ptr<Watch> find(const std::string& group, const std::string& job) const;
    void run(const std::stop_token& stop);
    void read_stream(Watch& watch, const std::string& stream, const std::stop_token& stop);
    bool step(Watch& watch, Watch::Work& work, const std::string& stream, Cursor& cursor);
    void commit(const Watch& watch, const std::string& stream, std::uint64_t next,
                const std::vector<std::vector<MetricPoint>>& points);

    LogStore& logs;
    store::Db& db;
    const std::shared_ptr<Sync<Inbox>> inbox;
    Sync<Watches> watches;
    TaskGroup tasks;  // last: joined before what it uses goes
};

MetricTap::MetricTap(LogStore& logs, store::Db& db) : impl_(std::make_unique<Impl>(logs, db)) {
    impl_->load();
    logs.on_append([inbox = impl_->inbox](const StreamId& id) {
        const bool is_new = inbox->with([&](Inbox& box) {
            if (box.watched.empty() || !box.watched.contains({id.group, job_of(id.stream)}))
                return false;
            return box.dirty.insert(id).second;
        });
        if (is_new) inbox->notify();
    });
    impl_->tasks.start("metric-tap",
                       [impl = impl_.get()](const std::stop_token& stop) { impl->run(stop); });
}

MetricTap::~MetricTap() {
    impl_->logs.on_append(nullptr);
    impl_->tasks.stop_and_join();
}

/// Watches and cursors of an earlier run; their streams are read again from the cursors on.
void MetricTap::Impl::load() {
    std::vector<std::shared_ptr<Watch>> found;
    db.read([&](store::Tx& tx) {
        store::Stmt stmt = tx.prepare("select space, job, definitions from metric_watch");
        while (stmt.step())
            found.push_back(std::make_shared<Watch>(stmt.text(0), stmt.text(1),
                                                    parse_definitions(stmt.text(2))));
    });
    for (std::shared_ptr<Watch>& watch : found) add(std::move(watch));
}

/// Cursors from the database, then make it known and look at what its streams hold already.
void MetricTap::Impl::add(std::shared_ptr<Watch> watch) {
    db.read([&](store::Tx& tx) {
        store::Stmt stmt =
            tx.prepare("select stream, next from metric_cursor where space = ? and job = ?");
        stmt.bind(1, watch->group).bind(2, watch->job);
        const Claim claim(*watch);
        while (stmt.step()) {
            const auto next = std::uint64_t(stmt.integer(1));
            claim->cursors[stmt.text(0)] = {.next = next, .stored = next};
        }
    });
    const WatchKey key{watch->group, watch->job};
    std::vector<std::string> streams;
    if (logs.group_created(key.first)) streams = logs.stream_names(key.first, key.second + "/");
    watches.with([&](Watches& all) { all[key] = std::move(watch); });
    inbox->with([&](Inbox& box) {
        box.watched.insert(key);
        for (std::string& stream : streams) box.dirty.insert({key.first, std::move(stream)});
    });
    inbox->notify();
}

std::shared_ptr<Watch> MetricTap::Impl::find(const std::string& group,
                                             const std::string& job) const {
    return watches.with([&](const Watches& all) -> std::shared_ptr<Watch> {
        const auto found = all.find({group, job});
        return found == all.end() ? nullptr : found->second;
    });
}

void MetricTap::Impl::run(const std::stop_token& stop) {
    Backoff backoff(milliseconds(200), milliseconds(5000));
    while (!stop.stop_requested()) {
        const std::set<StreamId> dirty = inbox->wait(
            Deadline::in(seconds(60)), stop, [](const Inbox& box) { return !box.dirty.empty(); },
            [](Inbox& box) { return std::exchange(box.dirty, {}); });
        milliseconds delay = kRound;
        for (const StreamId& id : dirty) {
            if (stop.stop_requested()) return;
            const std::shared_ptr<Watch> watch = find(id.group, job_of(id.stream));
            if (!watch) continue;
            const auto done = capture([&] { read_stream(*watch, id.stream, stop); });
            if (done.ok()) continue;
            log::error("metrics of a log stream could not be stored; trying again",
                       {{"stream", id.stream}, {"reason", done.error().what()}});
            delay = backoff.next();
            inbox->with([&](Inbox& box) { box.dirty.insert(id); });
        }
        if (delay == kRound) backoff.reset();
        sys::pause(Deadline::in(delay), stop);
    }
}

/// From the cursor to the end the stream has now.
void MetricTap::Impl::read_stream(Watch& watch, const std::string& stream,
                                  const std::stop_token& stop) {
    const Claim claim(watch);
    if (claim->forgotten) return;
    if (!claim->matcher) claim->matcher = std::make_unique<LineMatcher>(watch.definitions);
    Cursor& cursor = claim->cursors[stream];
    while (!stop.stop_requested() && step(watch, *claim, stream, cursor)) {
    }
}

/// One stretch of lines; false at the end of the stream.
bool MetricTap::Impl::step(Watch& watch, Watch::Work& work, const std::string& stream,
                           Cursor& cursor) {
    // Points per definition name: two definitions of one name feed one series, in order of lines.
    std::vector<std::vector<MetricPoint>> points(watch.definitions.size());
    const auto same_name = [&watch](std::size_t definition) {
        const auto at = std::ranges::find(watch.definitions, watch.definitions[definition].name,
                                          &MetricDefinition::name);
        return std::size_t(at - watch.definitions.begin());
    };
    bool any = false;
    const std::uint64_t from = cursor.next;
    const std::uint64_t next =
        logs.scan({watch.group, stream}, from, kStepBytes, [&](const LogBlock& block) {
            work.matcher->match_block(block, [&](std::size_t line, std::size_t id, double value) {
                if (block.first + line < from) return;
                points[same_name(id)].push_back({.time = block.lines[line].time, .value = value});
                any = true;
            });
        });
    if (next == from) return false;
    if (any || next - cursor.stored >= kLazyLines) {
        commit(watch, stream, next, points);
        cursor.stored = next;
    }
    cursor.next = next;
    return true;
}

void MetricTap::Impl::commit(const Watch& watch, const std::string& stream, std::uint64_t next,
                             const std::vector<std::vector<MetricPoint>>& points) {
    db.write([&](store::Tx& tx) {
        for (std::size_t i = 0; i < points.size(); ++i)
            MetricStore::put(tx,
                             {.space = watch.group,
                              .name = watch.definitions[i].name,
                              .dimensions = {{"TrainingJobName", watch.job}}},
                             points[i]);
        store::Stmt stmt = tx.prepare(
            "insert into metric_cursor (space, job, stream, next) values (?, ?, ?, ?)"
            " on conflict do update set next = excluded.next");
        stmt.bind(1, watch.group).bind(2, watch.job).bind(3, stream).bind(4, std::int64_t(next));
        stmt.run();
    });
}

void MetricTap::watch(const std::string& group, const std::string& job,
                      std::vector<MetricDefinition> definitions) {
    for (const MetricDefinition& definition : definitions) check_definition(definition);
    const std::shared_ptr<Watch> known = impl_->find(group, job);
    const std::string text = definitions_text(definitions);
    if (known && definitions_text(known->definitions) == text) return;
    if (definitions.empty()) return;
    impl_->db.write([&](store::Tx& tx) {
        store::Stmt stmt = tx.prepare(
            "insert into metric_watch (space, job, definitions) values (?, ?, ?)"
            " on conflict do update set definitions = excluded.definitions");
        stmt.bind(1, group).bind(2, job).bind(3, text);
        stmt.run();
    });
    if (known) {  // ends its work; the lines behind its stored cursors are read anew
        const Claim claim(*known);
        claim->forgotten = true;
    }
    impl_->add(std::make_shared<Watch>(group, job, std::move(definitions)));
}

void MetricTap::drain(const std::string& group, const std::string& job) {
    const std::shared_ptr<Watch> watch = impl_->find(group, job);
    if (!watch || !impl_->logs.group_created(group)) return;
    for (const std::string& stream : impl_->logs.stream_names(group, job + "/"))
        impl_->read_stream(*watch, stream, std::stop_token());
}

void MetricTap::forget(const std::string& group, const std::string& job) {
    if (const std::shared_ptr<Watch> watch = impl_->find(group, job)) {
        const Claim claim(*watch);
        claim->forgotten = true;
    }
    impl_->inbox->with([&](Inbox& box) { box.watched.erase({group, job}); });
    impl_->watches.with([&](Watches& all) { all.erase({group, job}); });
    impl_->db.write([&](store::Tx& tx) {
        store::Stmt watches = tx.prepare("delete from metric_watch where space = ? and job = ?");
        watches.bind(1, group).bind(2, job);
        watches.run();
        store::Stmt cursors = tx.prepare("delete from metric_cursor where space = ? and job = ?");
        cursors.bind(1, group).bind(2, job);
        cursors.run();
    });
}

}  // namespace ty::telemetry
