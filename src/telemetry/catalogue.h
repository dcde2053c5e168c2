// SPDX-License-Identifier: Apache-2.0
// Which groups and streams exist: one append-only text file, and its content sorted in memory, so
// that a hundred thousand finished streams cost neither open files nor folder scans.
//
// Private to telemetry/. All calls from any thread.
#pragma once

#include "base/sync.h"
#include "sys/sys.h"
#include "telemetry/telemetry.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::telemetry {

/// A file name that stands for any name: percent-encoded; cut and marked with a digest when too
/// long.
std::string file_name_of(std::string_view name);

class Catalogue {
public:
    /// Opens or creates `<root>/catalogue.log`; a torn last line is dropped.
    explicit Catalogue(const sys::fs::path& root);

    /// Both idempotent. On disk (survives kill -9) on return; throws exhausted on a full disk.
    void create_group(const std::string& group, Instant now);
    void create_stream(const StreamId& id, Instant now);
    void remove_stream(const StreamId& id, Instant now);

    bool has_group(const std::string& group) const;
    std::optional<Instant> created(const StreamId& id) const;
    std::vector<std::string> groups(std::string_view prefix) const;
    std::optional<Instant> group_created(const std::string& group) const;
    /// Names with the prefix, after `after`, sorted, at most `limit`. Throws not_found for no such
    /// group.
    std::vector<std::string> streams(const std::string& group, std::string_view prefix,
                                     std::string_view after, std::size_t limit) const;

private:
    struct Group {
        Instant created;
        std::map<std::string, Instant, std::less<>> streams;
    };
    struct State {
        sys::Fd file;
        std::uint64_t size = 0;
        std::uint64_t records = 0;
        std::uint64_t live = 0;
        std::map<std::string, Group, std::less<>> groups;
    };
    static bool apply(State& state, std::string_view record);
    static void write(State& state, const std::string& record);
    void load(State& state) const;
    void compact(State& state) const;

    const sys::fs::path path_;
    Sync<State> state_;
};

}  // namespace ty::telemetry
