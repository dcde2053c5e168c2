// SPDX-License-Identifier: Apache-2.0
// Keyset pages: a token holds the sort key and number of the last row given, so a page costs the
// same wherever it lies, and rows that come or go in between are neither repeated nor skipped.
#include "jobs/list.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "jobs/names.h"

#include <algorithm>
#include <limits>

namespace ty::jobs {

namespace {

using SortBy = ListQuery::SortBy;
using Order = ListQuery::Order;

constexpr std::int64_t kLongAgo = 0;
constexpr std::int64_t kFarAhead = 253'402'300'799'999;  // year 9999
constexpr std::string_view kBelowAll;
constexpr std::string_view kAboveAll = "\xf4\x8f\xbf\xbf";  // U+10FFFF

// ?1 region, ?2 ?3 created, ?4 ?5 modified, ?6 part of the name, ?7 limit, then where to go on:
// ?8 number, ?9 sort key, ?10 created (sorting by status only), and ?11 the status asked for.
// "+created" keeps the planner from walking by creation where another order is wanted.
#define TY_LIST_WHERE(created)                                                         \
    "select number, name, arn, created, modified, ended, status, secondary, name_key " \
    "from job where region = ?1 and " created                                          \
    " between ?2 and ?3 and modified between ?4 and ?5 and instr(name_key, ?6) > 0 "
#define TY_LIST TY_LIST_WHERE("created")
#define TY_LIST_OTHER TY_LIST_WHERE("+created")
#define TY_WITH_STATUS "and status = ?11 "
#define TY_BY_CREATED_UP "and (created, number) > (?9, ?8) order by created, number limit ?7"
#define TY_BY_CREATED_DOWN \
    "and (created, number) < (?9, ?8) order by created desc, number desc limit ?7"
#define TY_BY_NAME_UP "and (name_key, number) > (?9, ?8) order by name_key, number limit ?7"
#define TY_BY_NAME_DOWN \
    "and (name_key, number) < (?9, ?8) order by name_key desc, number desc limit ?7"

bool is_up(const ListQuery& query) {
    return query.order == Order::ascending;
}

/// With one status only, sorting by status is sorting by creation.
SortBy effective_sort(const ListQuery& query) {
    return query.status && query.sort_by == SortBy::status ? SortBy::created : query.sort_by;
}

/// Where the page before ended.
struct Cursor {
    std::int64_t number = 0;
    std::int64_t created = 0;
    std::string key;  // name_key or status, as sorted
};

std::string seal(const std::string& secret, const std::string& text) {
    const std::string mac = to_hex(hmac_sha256(as_bytes(secret), "page/" + text)).substr(0, 32);
    return mac + to_hex(as_bytes(text));
}

std::string token_of(const ListQuery& query, const Cursor& cursor, const std::string& secret) {
    return seal(secret, fmt::format("{} {} {} {} {}", static_cast<int>(effective_sort(query)),
                                    static_cast<int>(query.order), cursor.number, cursor.created,
                                    cursor.key));
}

[[noreturn]] void refuse_token() {
    throw_error(Code::invalid, "ValidationException",
                "NextToken is not valid for this request; repeat it with the same SortBy and "
                "SortOrder, or start again without NextToken");
}

Cursor cursor_of(const ListQuery& query, const std::string& secret) {
    if (query.token.size() < 32) refuse_token();
    const auto text = from_hex(std::string_view(query.token).substr(32));
    if (!text || !equal_in_constant_time(seal(secret, *text), query.token)) refuse_token();
    const std::vector<std::string> parts = split(*text, ' ');
    if (parts.size() != 5 || parse_int(parts[0]) != static_cast<int>(effective_sort(query)) ||
        parse_int(parts[1]) != static_cast<int>(query.order))
        refuse_token();
    return {parse_int(parts[2]).value_or(0), parse_int(parts[3]).value_or(0), parts[4]};
}

Cursor start_of(const ListQuery& query) {
    if (is_up(query)) return {-1, kLongAgo - 1, std::string(kBelowAll)};
    return {std::numeric_limits<std::int64_t>::max(), kFarAhead, std::string(kAboveAll)};
}

Summary summary_of(const store::Stmt& row) {
    Summary summary;
    summary.name = row.text(1);
    summary.arn = row.text(2);
    summary.created = row.instant(3);
    summary.modified = row.instant(4);
    if (!row.is_null(5)) summary.ended = row.instant(5);
    summary.status = parse_status(row.text(6)).value_or(Status::failed);
    summary.secondary = parse_secondary(row.text(7)).value_or(Secondary::failed);
    return summary;
}

}  // namespace

std::string_view list_sql(const ListQuery& query) {
    const bool up = is_up(query);
    switch (effective_sort(query)) {
        case SortBy::created:
            if (query.status)
                return up ? TY_LIST TY_WITH_STATUS TY_BY_CREATED_UP
                          : TY_LIST TY_WITH_STATUS TY_BY_CREATED_DOWN;
            return up ? TY_LIST TY_BY_CREATED_UP : TY_LIST TY_BY_CREATED_DOWN;
        case SortBy::name:
            if (query.status)
                return up ? TY_LIST_OTHER TY_WITH_STATUS TY_BY_NAME_UP
                          : TY_LIST_OTHER TY_WITH_STATUS TY_BY_NAME_DOWN;
            return up ? TY_LIST_OTHER TY_BY_NAME_UP : TY_LIST_OTHER TY_BY_NAME_DOWN;
        case SortBy::status:
            break;
    }
    return up ? TY_LIST_OTHER
               "and (status, created, number) > (?9, ?10, ?8) "
               "order by status, created, number limit ?7"
              : TY_LIST_OTHER
               "and (status, created, number) < (?9, ?10, ?8) "
               "order by status desc, created desc, number desc limit ?7";
}

Page list_page(store::Tx& tx, const ListQuery& query, const std::string& secret) {
    const SortBy sort = effective_sort(query);
    const Cursor from = query.token.empty() ? start_of(query) : cursor_of(query, secret);
    const auto millis = [](const std::optional<Instant>& instant, std::int64_t otherwise) {
        return instant ? static_cast<std::int64_t>(to_epoch_millis(*instant)) : otherwise;
    };
    std::int64_t created_from = millis(query.created_after, kLongAgo);
    std::int64_t created_to = millis(query.created_before, kFarAhead);
    if (sort == SortBy::created) {  // the index range starts where the last page ended
        if (is_up(query))
            created_from = std::max(created_from, from.created);
        else
            created_to = std::min(created_to, from.created);
    }
    auto stmt = tx.prepare(list_sql(query));
    stmt.bind(1, query.region).bind(2, created_from).bind(3, created_to);
    stmt.bind(4, millis(query.modified_after, kLongAgo));
    stmt.bind(5, millis(query.modified_before, kFarAhead));
    stmt.bind(6, to_lower(query.name_contains)).bind(7, query.limit + 1).bind(8, from.number);
    if (sort == SortBy::created)
        stmt.bind(9, from.created);
    else
        stmt.bind(9, from.key);
    if (sort == SortBy::status) stmt.bind(10, from.created);
    if (query.status) stmt.bind(11, to_string(*query.status));

    Page page;
    Cursor last;
    while (stmt.step()) {
        if (page.rows.size() == query.limit) {
            page.next = token_of(query, last, secret);
            break;
        }
        page.rows.push_back(summary_of(stmt));
        last = {stmt.integer(0), stmt.integer(3), stmt.text(sort == SortBy::name ? 8 : 6)};
    }
    return page;
}

}  // namespace ty::jobs
