// SPDX-License-Identifier: Apache-2.0
#include "jobs/list.h"
#include "base/error.h"
#include "jobs/rows.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <set>

using namespace ty;
using namespace ty::jobs;
using SortBy = ListQuery::SortBy;
using Order = ListQuery::Order;

namespace {

struct Shelf {
    sys::TempDir dir{"list"};
    store::Db db{dir.path() / "db"};

    /// Names a-b-…: every third failed, creation times in pairs.
    explicit Shelf(int count) {
        db.write([&](store::Tx& tx) {
            for (int i = 0; i < count; ++i) {
                Job job;
                job.id = JobId(fmt::format("j-{}", i));
                job.version = 0;
                job.spec.name = fmt::format("Job-{}-{}", i * 7919 % 1000, i);
                job.spec.region = i % 50 == 49 ? "eu-west-1" : "us-east-1";
                job.spec.account = "1";
                job.spec.arn = "arn:" + job.spec.name;
                job.spec.node.host = "algo-1";
                const Instant created = from_epoch_millis(1'000'000 + (i / 2) * 1000);
                job = step(job, Created{}, created).job;
                const std::int64_t number = insert_job(tx, job, plan::to_json(job.spec.node), "");
                if (i % 3 != 0) continue;
                const std::int64_t before = job.version;
                job = step(job, LaunchFailed{job.attempts.back().id, "x"}, created).job;
                update_job(tx, number, job, before);
            }
        });
    }
    Page page(const ListQuery& query) {
        Page page;
        db.read([&](store::Tx& tx) { page = list_page(tx, query, "secret"); });
        return page;
    }
    std::vector<Summary> walk(ListQuery query) {
        std::vector<Summary> all;
        do {
            Page next = page(query);
            CHECK(next.rows.size() <= query.limit);
            for (Summary& row : next.rows) all.push_back(std::move(row));
            query.token = next.next;
        } while (!query.token.empty());
        return all;
    }
};

ListQuery query_of(SortBy sort, Order order, std::size_t limit = 7) {
    ListQuery query;
    query.region = "us-east-1";
    query.sort_by = sort;
    query.order = order;
    query.limit = limit;
    return query;
}

}  // namespace

TEST_CASE("every order visits every job of the region exactly once, page by page") {
    Shelf shelf(100);
    for (const SortBy sort : {SortBy::created, SortBy::name, SortBy::status}) {
        for (const Order order : {Order::ascending, Order::descending}) {
            const auto rows = shelf.walk(query_of(sort, order));
            CHECK(rows.size() == 98);
            std::set<std::string> names;
            for (const Summary& row : rows) names.insert(row.name);
            CHECK(names.size() == 98);
            for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
                const Summary& a = order == Order::ascending ? rows[i] : rows[i + 1];
                const Summary& b = order == Order::ascending ? rows[i + 1] : rows[i];
                if (sort == SortBy::created) CHECK(a.created <= b.created);
                if (sort == SortBy::name) CHECK(a.name < b.name);
                if (sort == SortBy::status) CHECK(to_string(a.status) <= to_string(b.status));
            }
        }
    }
}

TEST_CASE("filters hold alone and together, in every order") {
    Shelf shelf(100);
    for (const SortBy sort : {SortBy::created, SortBy::name, SortBy::status}) {
        ListQuery query = query_of(sort, Order::descending, 3);
        query.status = Status::failed;
        for (const Summary& row : shelf.walk(query)) {
            CHECK(row.status == Status::failed);
            CHECK(row.ended.has_value());
        }
        CHECK(shelf.walk(query).size() == 33);  // of 34, one is in the other region
        query.created_after = from_epoch_millis(1'010'000);
        query.created_before = from_epoch_millis(1'020'000);
        const auto some = shelf.walk(query);
        CHECK(some.size() == 7);
        for (const Summary& row : some) CHECK(row.created >= *query.created_after);
        query.status.reset();
        query.name_contains = "JOB-0-";
        query.created_after.reset();
        query.created_before.reset();
        CHECK(shelf.walk(query).size() == 1);
    }
    ListQuery modified = query_of(SortBy::created, Order::ascending);
    modified.modified_after = from_epoch_millis(1'049'000);
    CHECK(shelf.walk(modified).size() == 1);
}

TEST_CASE("forged tokens and tokens of another order are refused") {
    Shelf shelf(30);
    ListQuery query = query_of(SortBy::created, Order::ascending);
    const std::string token = shelf.page(query).next;
    for (const std::string& bad :
         {std::string("x"), token + "00", token.substr(0, 40), "0" + token.substr(1)}) {
        query.token = bad;
        CHECK_THROWS_AS(shelf.page(query), Error);
    }
    query.token = token;
    CHECK(shelf.page(query).rows.size() == 7);
    query.order = Order::descending;
    CHECK_THROWS_AS(shelf.page(query), Error);
}

TEST_CASE("no list needs to sort or to scan the table") {
    Shelf shelf(10);
    for (const SortBy sort : {SortBy::created, SortBy::name, SortBy::status}) {
        for (const Order order : {Order::ascending, Order::descending}) {
            for (const bool with_status : {false, true}) {
                ListQuery query = query_of(sort, order);
                if (with_status) query.status = Status::failed;
                const std::string sql = "explain query plan " + std::string(list_sql(query));
                shelf.db.read([&](store::Tx& tx) {
                    auto stmt = tx.prepare(sql);
                    while (stmt.step()) {
                        const std::string line = stmt.text(3);
                        INFO(sql);
                        INFO(line);
                        const bool whole_sort = line == "USE TEMP B-TREE FOR ORDER BY";
                        CHECK_FALSE(whole_sort);
                        CHECK(line.find("SCAN") == std::string::npos);
                    }
                });
            }
        }
    }
}
