// SPDX-License-Identifier: Apache-2.0
#include "base/sync.h"
#include "telemetry/catalogue.h"
#include "telemetry/disk.h"
#include "telemetry/log_stream.h"

#include <sys/stat.h>
#include <algorithm>
#include <list>

namespace ty::telemetry {
namespace {

/// Streams kept open (two descriptors at most each); the least recently used is closed first.
constexpr std::size_t kOpenStreams = 256;

}  // namespace

struct LogStore::Impl {
    struct Slot {
        StreamId id;
        std::shared_ptr<LogStream> stream;
    };
    struct OpenStreams {
        std::list<Slot> recent;  ///< most recent first
        std::map<StreamId, std::list<Slot>::iterator> by_id;
    };
    using Subscriber = std::function<void(const StreamId&)>;

    Impl(const sys::fs::path& root_path, Clock& the_clock)
        : root(root_path), clock(the_clock), catalogue(root_path) {}

    sys::fs::path dir_of(const StreamId& id) const {
        return root / file_name_of(id.group) / file_name_of(id.stream);
    }

    /// The stream's one object; others may be closed to make room. Does no file work itself.
    std::shared_ptr<LogStream> open(const StreamId& id) {
        std::vector<std::shared_ptr<LogStream>> closed;  // destroyed after the lock
        return streams.with([&](OpenStreams& open) {
            if (const auto found = open.by_id.find(id); found != open.by_id.end()) {
                open.recent.splice(open.recent.begin(), open.recent, found->second);
                return found->second->stream;
            }
            auto stream = std::make_shared<LogStream>(dir_of(id), id.stream);
            open.recent.push_front({id, stream});
            open.by_id.emplace(id, open.recent.begin());
            // One in use stays: nobody else can take a reference while we hold the lock.
            for (auto at = open.recent.end();
                 open.by_id.size() > kOpenStreams && at != open.recent.begin();) {
                --at;
                if (at->stream.use_count() > 1) continue;
                closed.push_back(std::move(at->stream));
                open.by_id.erase(at->id);
                at = open.recent.erase(at);
            }
            return stream;
        });
    }

    /// Throws not_found with the text AWS gives.
    std::shared_ptr<LogStream> open_existing(const StreamId& id) {
        if (!catalogue.created(id)) {
            const bool has_group = catalogue.has_group(id.group);
            throw_error(Code::not_found, "ResourceNotFoundException",
                        "The specified log {} does not exist.", has_group ? "stream" : "group");
        }
        return open(id);
    }

    std::uint64_t append(const StreamId& id, std::optional<std::uint64_t> first,
                         std::span<const LogLine> lines) {
        const Instant now = clock.now();
        const std::uint64_t next =
            open(id)->append(first, lines, now, [&] { catalogue.create_stream(id, now); });
        const auto told = subscriber.with([](const auto& current) { return current; });
        if (told) (*told)(id);
        return next;
    }

    const sys::fs::path root;
    Clock& clock;
    Catalogue catalogue;
    Sync<OpenStreams> streams;
    Sync<std::shared_ptr<const Subscriber>> subscriber;
};

LogStore::LogStore(const sys::fs::path& root, Clock& clock)
    : impl_(std::make_unique<Impl>(root, clock)) {
    create_group(std::string(kTrainingJobs));
}

LogStore::~LogStore() = default;

void LogStore::create_group(const std::string& group) {
    impl_->catalogue.create_group(group, impl_->clock.now());
}

void LogStore::create_stream(const StreamId& id) {
    impl_->catalogue.create_stream(id, impl_->clock.now());
}

void LogStore::delete_streams(const std::string& group, const std::string& stream_prefix) {
    if (!impl_->catalogue.has_group(group)) return;
    for (const std::string& name : stream_names(group, stream_prefix)) {
        const StreamId id{group, name};
        impl_->open(id)->clear([&] { impl_->catalogue.remove_stream(id, impl_->clock.now()); });
    }
}

std::uint64_t LogStore::append(const StreamId& id, std::uint64_t first,
                               std::span<const LogLine> lines) {
    return impl_->append(id, first, lines);
}

std::uint64_t LogStore::append(const StreamId& id, std::span<const LogLine> lines) {
    return impl_->append(id, std::nullopt, lines);
}

std::vector<LogEvent> LogStore::read(const StreamId& id, std::uint64_t from, Direction direction,
                                     std::size_t limit, const Range& range) const {
    return impl_->open_existing(id)->read(from, direction, limit, range);
}

std::uint64_t LogStore::scan(const StreamId& id, std::uint64_t from, std::size_t max_bytes,
                             const std::function<void(const LogBlock&)>& fn) const {
    return impl_->open_existing(id)->scan(from, max_bytes, fn);
}

std::uint64_t LogStore::index_at(const StreamId& id, Instant start) const {
    return impl_->open_existing(id)->index_at(start);
}

std::vector<std::string> LogStore::groups(std::string_view prefix) const {
    return impl_->catalogue.groups(prefix);
}

std::optional<Instant> LogStore::group_created(const std::string& group) const {
    return impl_->catalogue.group_created(group);
}

std::vector<std::string> LogStore::stream_names(const std::string& group, std::string_view prefix,
                                                std::string_view after, std::size_t limit) const {
    return impl_->catalogue.streams(group, prefix, after, limit);
}

std::vector<std::string> LogStore::streams_by_activity(const std::string& group,
                                                       std::string_view prefix,
                                                       std::optional<Instant> since) const {
    std::vector<std::pair<Instant, std::string>> order;
    for (std::string& name : stream_names(group, prefix)) {
        const StreamId id{group, name};
        // The data file's own time: no stream needs opening.
        struct stat file {};
        const bool has_lines = ::stat((impl_->dir_of(id) / "lines.log").c_str(), &file) == 0;
        const Instant last = has_lines ? Instant(seconds(file.st_mtim.tv_sec) +
                                                 milliseconds(file.st_mtim.tv_nsec / 1'000'000))
                                       : impl_->catalogue.created(id).value_or(Instant());
        if (since && (!has_lines || last < *since)) continue;
        order.emplace_back(last, std::move(name));
    }
    std::ranges::sort(order);
    std::vector<std::string> names;
    names.reserve(order.size());
    for (auto& entry : order) names.push_back(std::move(entry.second));
    return names;
}

std::vector<StreamInfo> LogStore::streams(const std::string& group, std::string_view prefix) const {
    std::vector<StreamInfo> infos;
    for (std::string& name : stream_names(group, prefix))
        if (auto info = find_stream({group, std::move(name)})) infos.push_back(std::move(*info));
    return infos;
}

std::optional<StreamInfo> LogStore::find_stream(const StreamId& id) const {
    const auto created = impl_->catalogue.created(id);
    if (!created) return std::nullopt;
    StreamInfo info = impl_->open(id)->info();
    info.id = id;
    info.created = *created;
    return info;
}

std::uint64_t LogStore::wait_beyond(const StreamId& id, std::uint64_t index, Deadline by,
                                    const std::stop_token& stop) const {
    return impl_->open_existing(id)->wait_beyond(index, by, stop);
}

void LogStore::on_append(std::function<void(const StreamId&)> fn) {
    impl_->subscriber.with([&](std::shared_ptr<const Impl::Subscriber>& current) {
        current = fn ? std::make_shared<const Impl::Subscriber>(std::move(fn)) : nullptr;
    });
}

}  // namespace ty::telemetry
