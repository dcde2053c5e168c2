// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/whereabouts.h"

#include "agent/launcher/coordinator/coordinator_log.h"
#include "base/json.h"
#include "base/result.h"

#include <nlohmann/json.hpp>

namespace ty::agent {

void Whereabouts::save(const sys::fs::path& path) const {
    if (path.empty()) return;
    Json list = Json::array();
    for (const auto& place : places) list.push_back({place.id, place.address, place.port});
    const Json document = {{"generation", generation}, {"nodes", nodes}, {"places", list}};
    capture([&] {
        sys::fs::path beside = path;
        beside += ".new";
        std::error_code ignored;
        sys::fs::create_directories(path.parent_path(), ignored);
        sys::fs::permissions(path.parent_path(), sys::fs::perms::owner_all, ignored);
        sys::write_file(beside, encode_record(1, dump_json(document)), 0600);
        sys::fs::rename(beside, path, ignored);
    });
}

std::optional<Whereabouts> Whereabouts::load(const sys::fs::path& path, const Clock& clock,
                                             milliseconds freshness) {
    const std::optional<LogRecord> record = CoordinatorLog::load(path, clock, freshness);
    if (!record) return std::nullopt;
    try {
        const Json document = parse_json(record->snapshot);
        Whereabouts where{.generation = document.at("generation").get<std::int64_t>(),
                          .nodes = document.at("nodes").get<int>()};
        for (const Json& place : document.at("places")) {
            where.places.push_back({.id = place.at(0).get<std::string>(),
                                    .address = place.at(1).get<std::string>(),
                                    .port = place.at(2).get<int>()});
        }
        return where;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

}  // namespace ty::agent
