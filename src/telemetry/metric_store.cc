// SPDX-License-Identifier: Apache-2.0
#include "telemetry/telemetry.h"

#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ty::telemetry {
namespace {

std::string dimensions_text(const MetricId& id) {
    auto sorted = id.dimensions;
    std::ranges::sort(sorted);
    Json list = Json::array();
    for (const auto& [name, value] : sorted) list.push_back(Json::array({name, value}));
    return dump_json(list);
}

std::vector<std::pair<std::string, std::string>> parse_dimensions(const std::string& text) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Json& pair : parse_json(text))
        out.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    return out;
}

struct Series {
    std::int64_t id = 0;
    std::int64_t next = 0;
    MetricPoint last;
};

std::optional<Series> find_series(store::Tx& tx, const MetricId& id) {
    store::Stmt stmt = tx.prepare(
        "select id, next, last_time, last_value from metric_series"
        " where space = ? and name = ? and dimensions = ?");
    stmt.bind(1, id.space).bind(2, id.name).bind(3, dimensions_text(id));
    if (!stmt.step()) return std::nullopt;
    return Series{.id = stmt.integer(0),
                  .next = stmt.integer(1),
                  .last = {.time = stmt.instant(2), .value = stmt.real(3)}};
}

std::int64_t add_series(store::Tx& tx, const MetricId& id, const MetricPoint& last) {
    store::Stmt stmt = tx.prepare(
        "insert into metric_series (space, name, dimensions, next, last_time, last_value)"
        " values (?, ?, ?, 0, ?, ?)");
    stmt.bind(1, id.space).bind(2, id.name).bind(3, dimensions_text(id));
    stmt.bind(4, last.time).bind(5, last.value);
    stmt.run();
    return tx.last_row_id();
}

}  // namespace

MetricStore::MetricStore(store::Db& db) : db_(db) {}

void MetricStore::put(const MetricId& id, std::span<const MetricPoint> points) {
    db_.write([&](store::Tx& tx) { put(tx, id, points); });
}

void MetricStore::put(std::span<const std::pair<MetricId, MetricPoint>> points) {
    db_.write([&](store::Tx& tx) {
        for (const auto& [id, point] : points) put(tx, id, std::span(&point, 1));
    });
}

void MetricStore::put(store::Tx& tx, const MetricId& id, std::span<const MetricPoint> points) {
    if (points.empty()) return;
    for (const MetricPoint& point : points)
        if (!std::isfinite(point.value))
            throw_error(Code::invalid, "InvalidParameterValue",
                        "metric {}: the value {} is not a finite number", id.name, point.value);
    const auto known = find_series(tx, id);
    const std::int64_t series = known ? known->id : add_series(tx, id, points.back());
    std::int64_t number = known ? known->next : 0;
    for (const MetricPoint& point : points) {
        store::Stmt insert = tx.prepare(
            "insert into metric_point (series, time, number, value) values (?, ?, ?, ?)");
        insert.bind(1, series).bind(2, point.time).bind(3, number++).bind(4, point.value);
        insert.run();
    }
    store::Stmt update =
        tx.prepare("update metric_series set next = ?, last_time = ?, last_value = ? where id = ?");
    update.bind(1, number).bind(2, points.back().time).bind(3, points.back().value).bind(4, series);
    update.run();
}

std::vector<Datapoint> MetricStore::query(const MetricId& id, Instant start, Instant end,
                                          seconds period) const {
    std::vector<Datapoint> out;
    db_.read([&](store::Tx& tx) {
        const auto series = find_series(tx, id);
        if (!series) return;
        store::Stmt stmt = tx.prepare(
            "select time / ?1 * ?1, sum(value), min(value), max(value), count(*) from metric_point"
            " where series = ?2 and time >= ?3 and time < ?4 group by 1 order by 1");
        stmt.bind(1, std::int64_t(milliseconds(period).count()));
        stmt.bind(2, series->id).bind(3, start).bind(4, end);
        while (stmt.step())
            out.push_back({.start = stmt.instant(0),
                           .sum = stmt.real(1),
                           .minimum = stmt.real(2),
                           .maximum = stmt.real(3),
                           .count = std::uint64_t(stmt.integer(4))});
    });
    return out;
}

std::vector<MetricId> MetricStore::list(std::string_view space, std::string_view name) const {
    std::vector<MetricId> out;
    db_.read([&](store::Tx& tx) {
        store::Stmt stmt = tx.prepare(
            "select space, name, dimensions from metric_series"
            " where (?1 = '' or space = ?1) and (?2 = '' or name = ?2)"
            " order by space, name, dimensions");
        stmt.bind(1, space).bind(2, name);
        while (stmt.step())
            out.push_back({.space = stmt.text(0),
                           .name = stmt.text(1),
                           .dimensions = parse_dimensions(stmt.text(2))});
    });
    return out;
}

std::vector<MetricStore::Listed> MetricStore::list_after(std::int64_t after, std::size_t limit,
                                                         std::string_view space,
                                                         std::string_view name) const {
    std::vector<Listed> out;
    db_.read([&](store::Tx& tx) {
        store::Stmt stmt = tx.prepare(
            "select id, space, name, dimensions from metric_series"
            " where id > ?1 and (?2 = '' or space = ?2) and (?3 = '' or name = ?3)"
            " order by id limit ?4");
        stmt.bind(1, after).bind(2, space).bind(3, name).bind(4, std::int64_t(limit));
        while (stmt.step())
            out.push_back({.key = stmt.integer(0),
                           .id = {.space = stmt.text(1),
                                  .name = stmt.text(2),
                                  .dimensions = parse_dimensions(stmt.text(3))}});
    });
    return out;
}

std::optional<MetricPoint> MetricStore::last(const MetricId& id) const {
    std::optional<MetricPoint> point;
    db_.read([&](store::Tx& tx) {
        if (const auto series = find_series(tx, id)) point = series->last;
    });
    return point;
}

}  // namespace ty::telemetry
