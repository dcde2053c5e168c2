// SPDX-License-Identifier: Apache-2.0
#include "telemetry/catalogue.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "telemetry/disk.h"

namespace ty::telemetry {
namespace {

std::string checksum(std::string_view text) {
    Hasher hasher(HashKind::crc32c);
    hasher.update(text);
    return to_hex(as_bytes(hasher.finish()));
}

/// "<crc32c> <kind> <milliseconds> <group> [<stream>]\n", names percent-encoded.
std::string record_of(char kind, Instant time, std::string_view group, std::string_view stream) {
    std::string text = fmt::format("{} {} {}", kind, to_epoch_millis(time), percent_encode(group));
    if (kind != 'g') text += " " + percent_encode(stream);
    return checksum(text) + " " + text + "\n";
}

}  // namespace

std::string file_name_of(std::string_view name) {
    constexpr std::size_t kLongest = 200;
    std::string file = percent_encode(name);
    if (file.starts_with('.')) file.replace(0, 1, "%2E");
    if (file.size() <= kLongest) return file;
    return file.substr(0, kLongest - 40) + "~" + sha256_hex(name).substr(0, 32);
}

Catalogue::Catalogue(const sys::fs::path& root) : path_(root / "catalogue.log") {
    make_dirs(root);
    state_.with([this](State& state) {
        load(state);
        if (state.records > 2 * state.live + 1000) compact(state);
    });
}

void Catalogue::load(State& state) const {
    state.file = open_data(path_);
    const std::uint64_t end = file_size(state.file, path_);
    std::string pending;
    std::uint64_t at = 0;
    bool damaged = false;
    while (at < end && !damaged) {
        const std::size_t kept = pending.size();
        const std::size_t want = std::size_t(std::min<std::uint64_t>(1u << 20, end - at));
        pending.resize(kept + want);
        read_at(state.file, at, std::as_writable_bytes(std::span(pending)).subspan(kept), path_);
        at += want;
        std::size_t begin = 0;
        for (std::size_t line = 0; (line = pending.find('\n', begin)) != std::string::npos;
             begin = line + 1) {
            if (!apply(state, std::string_view(pending).substr(begin, line - begin))) {
                damaged = true;
                break;
            }
            state.size += line + 1 - begin;
        }
        pending.erase(0, begin);
    }
    if (state.size == end) return;
    log::warning("dropped the torn end of the log catalogue",
                 {{"file", path_.string()}, {"bytes", end - state.size}});
    truncate_to(state.file, state.size, path_);
}

/// Takes one line without its newline; false when it is not one we wrote.
bool Catalogue::apply(State& state, std::string_view record) {
    if (record.size() < 10 || record[8] != ' ' || checksum(record.substr(9)) != record.substr(0, 8))
        return false;
    const std::vector<std::string> parts = split(record.substr(9), ' ');
    if (parts.size() < 3 || parts[0].size() != 1) return false;
    const auto millis = parse_int(parts[1]);
    const auto group = percent_decode(parts[2]);
    if (!millis || !group) return false;
    ++state.records;
    const Instant time = from_epoch_millis(*millis);
    const auto [at, is_new] =
        state.groups.try_emplace(*group, Group{.created = time, .streams = {}});
    if (is_new) ++state.live;
    if (parts[0] == "g") return true;
    const auto stream = parts.size() == 4 ? percent_decode(parts[3]) : std::nullopt;
    if (!stream) return false;
    auto& streams = at->second.streams;
    if (parts[0] == "s") {
        const std::size_t before = streams.size();
        streams.try_emplace(streams.end(), *stream, time);
        state.live += streams.size() - before;
    } else if (parts[0] == "d") {
        state.live -= streams.erase(*stream);
    } else {
        return false;
    }
    return true;
}

void Catalogue::write(State& state, const std::string& record) {
    write_at(state.file, state.size, record, "the log catalogue");
    state.size += record.size();
    ++state.records;
}

/// Written anew, sorted, when most of the file speaks of deleted streams.
void Catalogue::compact(State& state) const {
    std::string text;
    for (const auto& [group_name, group] : state.groups) {
        text += record_of('g', group.created, group_name, {});
        for (const auto& [stream, created] : group.streams)
            text += record_of('s', created, group_name, stream);
    }
    sys::write_file_atomically(path_, text);
    state.file = open_data(path_);
    state.size = text.size();
    state.records = state.live;
}

void Catalogue::create_group(const std::string& group, Instant now) {
    state_.with([&](State& state) {
        if (state.groups.contains(group)) return;
        write(state, record_of('g', now, group, {}));
        state.groups.emplace(group, Group{.created = now, .streams = {}});
        ++state.live;
    });
}

void Catalogue::create_stream(const StreamId& id, Instant now) {
    state_.with([&](State& state) {
        const auto group = state.groups.find(id.group);
        if (group != state.groups.end() && group->second.streams.contains(id.stream)) return;
        write(state, record_of('s', now, id.group, id.stream));
        if (group == state.groups.end()) ++state.live;
        state.groups.try_emplace(id.group, Group{.created = now, .streams = {}})
            .first->second.streams.emplace(id.stream, now);
        ++state.live;
    });
}

void Catalogue::remove_stream(const StreamId& id, Instant now) {
    state_.with([&](State& state) {
        const auto group = state.groups.find(id.group);
        if (group == state.groups.end() || !group->second.streams.contains(id.stream)) return;
        write(state, record_of('d', now, id.group, id.stream));
        state.live -= group->second.streams.erase(id.stream);
    });
}

bool Catalogue::has_group(const std::string& group) const {
    return state_.with([&](const State& state) { return state.groups.contains(group); });
}

std::optional<Instant> Catalogue::group_created(const std::string& group) const {
    return state_.with([&](const State& state) -> std::optional<Instant> {
        const auto found = state.groups.find(group);
        if (found == state.groups.end()) return std::nullopt;
        return found->second.created;
    });
}

std::optional<Instant> Catalogue::created(const StreamId& id) const {
    return state_.with([&](const State& state) -> std::optional<Instant> {
        const auto group = state.groups.find(id.group);
        if (group == state.groups.end()) return std::nullopt;
        const auto stream = group->second.streams.find(id.stream);
        if (stream == group->second.streams.end()) return std::nullopt;
        return stream->second;
    });
}

std::vector<std::string> Catalogue::groups(std::string_view prefix) const {
    return state_.with([&](const State& state) {
        std::vector<std::string> names;
        for (auto at = state.groups.lower_bound(prefix);
             at != state.groups.end() && at->first.starts_with(prefix); ++at)
            names.push_back(at->first);
        return names;
    });
}

std::vector<std::string> Catalogue::streams(const std::string& group, std::string_view prefix,
                                            std::string_view after, std::size_t limit) const {
    return state_.with([&](const State& state) {
        const auto found = state.groups.find(group);
        if (found == state.groups.end())
            throw_error(Code::not_found, "ResourceNotFoundException", "log group {} does not exist",
                        group);
        const auto& streams = found->second.streams;
        std::vector<std::string> names;
        auto at = after < prefix || after.empty() ? streams.lower_bound(prefix)
                                                  : streams.upper_bound(after);
        for (; at != streams.end() && at->first.starts_with(prefix) && names.size() < limit; ++at)
            names.push_back(at->first);
        return names;
    });
}

}  // namespace ty::telemetry
